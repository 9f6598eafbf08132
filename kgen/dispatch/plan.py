"""Plans: a bound and selected call as an argument block, ready but for the pointers.

A plan is valid for every call with the same extents, strides, dtypes and keywords whose scalars lie in its
ranges, so it is made once and kept. What still changes from call to call is listed by place: the pointers of
tensors, scalars that steer nothing, and workspaces.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kgen.dispatch import codes
from kgen.dispatch.errors import fault
from kgen.dispatch.gpu import Launcher
from kgen.dispatch.model import Bound, Names, Selection
from kgen.dispatch.overlap import Pair
from kgen.dispatch.workspace import ALIGNMENT, ZEROED
from kgen.manifest import ABI_VERSION, ArgumentRule, Code, Policy, Scalar, Word
from kgen.semantics import DTYPES, evaluate

Defaults = Mapping[str, Callable[[Names], float]]
"""Values of scalars that were left out, from the facts of the call."""


@dataclass(frozen=True)
class Workspace:
    """Scratch memory of a plan: bytes in all, and where each argument starts in it. What is to be zeros lies
    before it, at offsets below 0."""

    size: int
    offsets: Mapping[str, int]


@dataclass(frozen=True)
class Plan:
    """A launch without its pointers: of the CPU kernel at `address`, or of the GPU kernels of a
    `launcher`; with neither there is nothing to do.

    `pointers`: argument -> place of its pointer word; `scalars`: argument -> place of its word;
    `workspace`: (place, offset) pairs into `workspace_size` bytes. `keep` keeps the code loaded.
    `calls` is raised by one at each launch; plans of one kernel share it. `ranges`: the least and the
    largest value of each int scalar for which the plan is right. `pairs`: tensors whose memory a call must
    keep apart.
    """

    policy: Policy
    selection: Selection | None
    facts: Names
    address: int
    words: tuple[int, ...]
    pointers: Mapping[str, int]
    scalars: Mapping[str, int]
    workspace: tuple[tuple[int, int], ...] = ()
    workspace_size: int = 0
    threads: int = 0  # 0: as many as torch uses
    keep: object = None
    calls: ctypes.c_int64 = field(default_factory=ctypes.c_int64)
    launcher: Launcher | None = None
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()


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


def workspace_of(policy: Policy, names: Names) -> Workspace:
    """The scratch memory a variant needs: largest part first, without gaps. Raises KgenError (K517) where it
    needs more zeros than there are."""
    needed = [rule for rule in policy.arguments if rule.workspace and _needed(rule, names)]
    size, offsets = _in_a_row({rule.name: _bytes(rule, names) for rule in needed if not rule.zeroed})
    zeros, within = _in_a_row({rule.name: _bytes(rule, names) for rule in needed if rule.zeroed})
    if zeros > ZEROED:
        raise fault("K517", f"{policy.op} needs {zeros} bytes of zeros; a workspace has {ZEROED}")
    start = -(-zeros // ALIGNMENT) * ALIGNMENT
    return Workspace(size, {**offsets, **{name: at - start for name, at in within.items()}})


def _bytes(rule: ArgumentRule, names: Names) -> int:
    extents = [int(evaluate(axis.size, names)) for axis in rule.axes]
    return math.prod(extents) * DTYPES[rule.dtype]


def _in_a_row(sizes: Mapping[str, int]) -> tuple[int, Mapping[str, int]]:
    """Bytes in all, and where each part starts."""
    offsets, total = {}, 0
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        offsets[name] = total
        total += sizes[name]
    return total, offsets


def _needed(rule: ArgumentRule, names: Names) -> bool:
    return rule.when is None or bool(evaluate(rule.when, names))


def nothing_to_do(policy: Policy, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether a call writes nothing: each tensor it writes is empty, or, where it updates a tensor
    in place, the index tensor that says where is."""
    present = [rule for rule in policy.arguments if rule.name in shapes and not rule.workspace]
    written = [rule for rule in present if rule.access == "write"]
    if not written:
        written = [rule for rule in present if rule.access == "read" and rule.dtype in ("i32", "i64")]
    return bool(written) and all(0 in shapes[rule.name] for rule in written)


def fill(policy: Policy, bound: Bound, facts: Names, workspace: Workspace, defaults: Defaults) -> list[int]:
    """The words of the argument block; pointers, threads and error word are left 0."""
    filler = _Filler(policy, bound, facts, workspace, defaults)
    words = [filler.word(word) for word in policy.words]
    words[_place(policy, "abi")] = ABI_VERSION
    words[_place(policy, "words")] = len(words)
    return words


class _Filler:
    def __init__(
        self, policy: Policy, bound: Bound, facts: Names, workspace: Workspace, defaults: Defaults
    ) -> None:
        self.policy, self.bound, self.facts, self.defaults = policy, bound, facts, defaults
        self.strides = dict(bound.strides)
        for rule in policy.arguments:
            if rule.name in workspace.offsets:
                self.strides[rule.name] = _contiguous(rule, facts)
        self.kinds: Mapping[str, Callable[[Word], int]] = {
            "pointer": lambda _word: 0,
            "stride": self._stride,
            "int": lambda word: int(self._scalar(word)),
            "float": lambda word: float_bits(float(self._scalar(word))),
            "fact": lambda word: int(self._fact(word.name)),
        }

    def word(self, word: Word) -> int:
        if word.name in _HEADER_POINTERS:
            return 0
        if word.kind not in self.kinds:
            raise fault(
                "K530", f"{self.policy.op}: argument word {word.name} is of unknown kind '{word.kind}'"
            )
        return self.kinds[word.kind](word)

    def _stride(self, word: Word) -> int:
        by_axis = self.strides.get(word.argument)
        return 0 if by_axis is None else by_axis[word.axis]

    def _scalar(self, word: Word) -> Scalar:
        name = word.argument or word.name
        value = self.bound.scalars.get(name)
        if value is None and name in self.defaults:
            value = self.defaults[name](self.facts)
        if value is None:
            raise fault("K510", f"{self.policy.op}: {name} is missing")
        return value

    def _fact(self, name: str) -> Scalar:
        if name not in self.facts:
            raise fault("K510", f"{self.policy.op}: nothing says what {name} is")
        return self.facts[name]


_HEADER_POINTERS = ("abi", "words", "error", "parallel", "thread_num", "num_threads")


def _contiguous(rule: ArgumentRule, facts: Names) -> Mapping[str, int]:
    strides, step = {}, 1
    for axis in reversed(rule.axes):
        strides[axis.name] = step
        step *= int(evaluate(axis.size, facts))
    return strides


def float_bits(value: float) -> int:
    """The bits of a double as a signed 64-bit integer."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)


def _place(policy: Policy, name: str) -> int:
    return next(i for i, word in enumerate(policy.words) if word.name == name)


def places(policy: Policy, kind: str) -> Mapping[str, int]:
    """Argument -> place of its word of this kind (`pointer`, or `scalar` for int and float)."""
    kinds = ("int", "float") if kind == "scalar" else (kind,)
    return {
        word.argument or word.name: place
        for place, word in enumerate(policy.words)
        if word.kind in kinds and word.name not in _HEADER_POINTERS
    }
