"""Tuning tables: what was measured best for classes of calls, as both halves see it.

A table holds for one operator on one target, and for kernels of one compiler. Its classes are looked at in
their order; the first that a call belongs to decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce

from kgen.manifest import Code, Scalar

Range = tuple[int, int]
"""Both ends belong to it."""


@dataclass(frozen=True)
class TunedClass:
    """Calls of one kind, and the values of free parameters that were fastest there; no values: what the rules
    of the operator say was not beaten.

    exact: parameters and facts with the value they must have. ranges: facts that may lie between two ends.
    timings: what was measured, for a reader. where: the place in the table's file.
    """

    exact: Mapping[str, Scalar]
    ranges: Mapping[str, Range]
    use: Mapping[str, Scalar]
    timings: Mapping[str, str] = field(default_factory=dict)
    where: str = ""

    @cached_property
    def within(self) -> Code:
        """That all ranges and exact ints hold, as an expression over facts; made once, since codes are kept
        by identity."""
        exact = {name: value for name, value in self.exact.items() if type(value) is int}
        conditions: list[Code] = [["==", ["name", name], ["int", value]] for name, value in exact.items()]
        for name, (low, high) in self.ranges.items():
            conditions.append(["compare", ["<=", "<="], [["int", low], ["name", name], ["int", high]]])
        return reduce(lambda left, right: ["and", left, right], conditions or [["bool", True]])

    @property
    def names(self) -> frozenset[str]:
        """What it asks of a call."""
        return frozenset((*self.exact, *self.ranges))

    @property
    def key(self) -> tuple[object, ...]:
        """What two classes of the same calls agree in; classes are sorted by it."""
        exact = tuple((name, _ordered(value)) for name, value in sorted(self.exact.items()))
        return exact, tuple(sorted(self.ranges.items()))


@dataclass(frozen=True)
class TuningTable:
    """The classes of an operator on a target. `compiler`: of the kernels that were measured; `machine` is for
    a reader."""

    op: str
    target: str
    compiler: str
    classes: tuple[TunedClass, ...]
    machine: str = ""
    name: str = ""

    def fitting(self, names: Mapping[str, Scalar], moving: Collection[str] = ()) -> tuple[TunedClass, ...]:
        """The classes whose exact values a call has, but for what is `moving`, and which ask for nothing that
        it does not give."""
        return tuple(
            one
            for one in self.classes
            if one.names <= names.keys()
            and all(name in moving or names[name] == value for name, value in one.exact.items())
        )


def _ordered(value: Scalar) -> tuple[str, float, str]:
    """Numbers by size, words by letters."""
    if isinstance(value, str):
        return "word", 0.0, value
    return type(value).__name__, float(value), ""
