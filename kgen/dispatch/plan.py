"""Plans: a bound and selected call as an argument block, ready but for the pointers.

A plan is valid for every call with the same shapes, strides, dtypes and keywords whose scalars, and whose
counted extents (`extents`), lie in its ranges, so it is made once and kept. What still changes from call to
call is listed by place: the pointers of tensors, scalars, workspaces, and the figures that follow from a
scalar or an extent, each with its path.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kgen.dispatch import codes
from kgen.dispatch.gpu import Launcher
from kgen.dispatch.model import Names, Selection
from kgen.dispatch.overlap import Pair
from kgen.dispatch.paths import Path
from kgen.manifest import Code, Policy, Scalar


@dataclass(frozen=True)
class Moves:
    """The figures of a plan that follow from a scalar or an extent: words by place, bytes of workspace and
    the offsets in it, by place of their pointer, and blocks along x, y and z, by (kernel, axis)."""

    words: Mapping[int, Path] = field(default_factory=dict)
    size: Path | None = None
    offsets: Mapping[int, Path] = field(default_factory=dict)
    grids: Mapping[tuple[int, int], Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A launch without its pointers: of the CPU kernel at `address`, or of the GPU kernels of a
    `launcher`; with neither there is nothing to do.

    `pointers`: argument -> place of its pointer word; `scalars`: argument -> place of its word;
    `workspace`: place of a pointer word -> offset into `workspace_size` bytes. `keep` keeps the code loaded.
    `calls` is raised by one at each launch; plans of one kernel share it. `ranges`: the least and the
    largest value of each int scalar and counted extent for which the plan is right, once `moves` are made;
    the figures here are those of the call it was made for. `pairs`: tensors whose memory a call must keep
    apart.
    """

    policy: Policy
    selection: Selection | None
    facts: Names
    address: int
    words: tuple[int, ...]
    pointers: Mapping[str, int]
    scalars: Mapping[str, int]
    workspace: Mapping[int, int] = field(default_factory=dict)
    workspace_size: int = 0
    threads: int = 0  # 0: as many as torch uses
    keep: object = None
    calls: ctypes.c_int64 = field(default_factory=ctypes.c_int64)
    launcher: Launcher | None = None
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    moves: Moves = field(default_factory=Moves)
    pairs: tuple[Pair, ...] = ()


def moved(plan: Plan, values: Mapping[str, Scalar | None]) -> Plan:
    """The plan with the figures that other scalars and extents in its ranges give."""
    ints = {name: int(values[name] or 0) for name in plan.ranges}

    def at(path: Path) -> int:
        return path.at(ints[path.of])

    moves, words, launcher = plan.moves, list(plan.words), plan.launcher
    for place, path in moves.words.items():
        words[place] = at(path)
    if launcher is not None:
        launcher = launcher.at({place: at(path) for place, path in moves.grids.items()}, ints)
    named = {plan.policy.words[place].name: words[place] for place in moves.words}
    return replace(
        plan,
        facts={**plan.facts, **named, **ints},
        words=tuple(words),
        pairs=tuple(pair.at(ints) for pair in plan.pairs),
        workspace={**plan.workspace, **{place: at(path) for place, path in moves.offsets.items()}},
        workspace_size=plan.workspace_size if moves.size is None else at(moves.size),
        launcher=launcher,
    )


def covers(plan: Plan, values: Mapping[str, Scalar | None]) -> bool:
    """Whether a plan is right for these values; a scalar that was left out is no matter of ranges."""
    return all(low <= int(values[name] or 0) <= high for name, (low, high) in plan.ranges.items())


def steering_scalars(policy: Policy) -> frozenset[str]:
    """Scalars some expression of the policy uses; plans for two values of one may differ."""
    used = set().union(*(codes.names_in(code) for code in _expressions(policy)))
    return frozenset(a.name for a in policy.arguments if a.kind in ("int", "float") and a.name in used)


def _expressions(policy: Policy) -> list[Code]:
    found: list[Code] = [code for _, code in policy.facts]
    found += [guard.check for guard in policy.guards]
    for rule in policy.select:
        found += [rule.want, *rule.policies.values()]
    for argument in policy.arguments:
        found += [axis.size for axis in argument.axes] + [argument.when or []]
    return found


def nothing_to_do(policy: Policy, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether a call writes nothing: each tensor it writes is empty, or, where it updates a tensor
    in place, the index tensor that says where is."""
    present = [rule for rule in policy.arguments if rule.name in shapes and not rule.workspace]
    written = [rule for rule in present if rule.access == "write"]
    if not written:
        written = [rule for rule in present if rule.access == "read" and rule.dtype in ("i32", "i64")]
    return bool(written) and all(0 in shapes[rule.name] for rule in written)
