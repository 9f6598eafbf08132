"""The classes of calls that a build can be tuned for: cells of a grid, with the variants that serve them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kgen.dispatch.select import complete
from kgen.manifest import Policy, Scalar
from kgen.spec.benches import BenchCell, BenchSpec, holds
from kgen.syntax.ast import Expr
from kgen.tune import decode
from kgen.tuning import Range
from kgen.variants.model import Matrix, Variant


class Workbench(Protocol):
    """How the calls of an operator are made and timed (see `kgen.tune.decode`)."""

    def params_of(self, cell: BenchCell, /) -> Mapping[str, Scalar]:
        """The parameters that a cell fixes."""

    def exact_facts(self, cell: BenchCell, /) -> Mapping[str, Scalar]:
        """The facts that calls of the cell's class share with it."""

    def ranged_facts(self, cell: BenchCell, /) -> Mapping[str, int]:
        """The facts in which a class reaches beyond its cell."""

    def measure(
        self, cell: BenchCell, variants: Sequence[Variant], device: str, options: Mapping[str, Any], /
    ) -> Mapping[str, Sequence[float]]:
        """Seconds of each variant in each round, by variant name."""


WORKBENCHES: Mapping[str, Workbench] = {decode.OP: decode}


@dataclass(frozen=True)
class CallClass:
    """Calls like those of a cell: `exact` parameters and facts as there, `ranges` around its others; and the
    variants that serve them, which differ in free parameters alone."""

    cell: BenchCell
    variants: tuple[Variant, ...]
    exact: Mapping[str, Scalar]
    ranges: Mapping[str, Range]
    point: Mapping[str, Scalar]

    @property
    def op(self) -> str:
        return self.variants[0].op.name

    @property
    def target(self) -> str:
        return self.variants[0].target.name

    @property
    def name(self) -> str:
        return f"{self.target} {self.cell.name}"


def classes_of(
    matrix: Matrix, bench: BenchSpec, policy: Callable[[str], Policy], only: Expr | None = None
) -> tuple[CallClass, ...]:
    """Every cell that two or more variants of the build serve, by target. Ragged cells are left out: a call
    does not say how its lengths are spread."""
    found = []
    for (op, target), variants in _groups(matrix).items():
        for cell in bench.cells():
            if cell.workload.ragged or (only is not None and not holds(only, cell)):
                continue
            one = _class(WORKBENCHES[op], policy(op), target, cell, variants)
            if len(one.variants) > 1:
                found.append(one)
    return tuple(found)


def reach(value: int) -> Range:
    """The values that one stands for: from half of it to less than twice it, so that points four times as
    large as the one before cover everything; 1 stands for itself."""
    return value - value // 2, 2 * value - 1


def _groups(matrix: Matrix) -> Mapping[tuple[str, str], list[Variant]]:
    """Variants that a workbench can call, by operator and target; the simulator's have no time."""
    groups: dict[tuple[str, str], list[Variant]] = {}
    for variant in matrix.accepted:
        if variant.op.name in WORKBENCHES and not variant.simulated:
            groups.setdefault((variant.op.name, variant.target.name), []).append(variant)
    return groups


def _class(
    bench: Workbench, policy: Policy, target: str, cell: BenchCell, variants: Sequence[Variant]
) -> CallClass:
    fixed = {name: v for name, v in complete(policy, bench.params_of(cell), target).items() if name != "arch"}
    serving = [v for v in variants if all(v.params[name] == value for name, value in fixed.items())]
    points = bench.ranged_facts(cell)
    exact = {**fixed, **bench.exact_facts(cell)}
    return CallClass(
        cell=cell,
        variants=tuple(serving),
        exact=exact,
        ranges={name: reach(value) for name, value in points.items()},
        point={**exact, **points},
    )
