"""`kgen tune`: measure the kernels that serve a class of calls, and keep which is the fastest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kgen.bench.measure import Spread
from kgen.dispatch.model import Bound, Built
from kgen.dispatch.select import on_target, select
from kgen.manifest import Entry, Policy, Scalar
from kgen.spec.tuning import tuning_text
from kgen.tune.classes import CallClass
from kgen.tune.decide import spreads_of, winner
from kgen.tuning import TunedClass, TuningTable
from kgen.variants.model import Variant

Timer = Callable[[CallClass], Mapping[str, Sequence[float]]]
"""Seconds of each variant of a class in each round, by variant name."""


@dataclass(frozen=True)
class Tuned:
    """A class that was measured: times by variant name, what the rules choose, and what is to be taken."""

    of: CallClass
    spreads: Mapping[str, Spread]
    rule: str
    best: str

    def line(self) -> str:
        """The class in one line."""
        best, rule = (
            f"{self.label(name)} {microseconds(self.spreads[name])}" for name in (self.best, self.rule)
        )
        if self.best == self.rule:
            return f"{self.of.name}: the rule's {rule} is not beaten"
        return f"{self.of.name}: {best} beats the rule's {rule}"

    def label(self, name: str) -> str:
        """The free parameters of a variant as they stand in its name."""
        variant = self.variant(name)
        free = {rule.param for rule in variant.op.select}
        return "_".join(p.spelt(variant.params[p.name]) for p in variant.op.params if p.name in free)

    def variant(self, name: str) -> Variant:
        return next(variant for variant in self.of.variants if variant.name == name)

    def entry(self) -> TunedClass:
        """What the table says of it."""
        chosen = self.variant(self.best)
        free = [rule.param for rule in chosen.op.select]
        return TunedClass(
            exact=self.of.exact,
            ranges=self.of.ranges,
            use={name: chosen.params[name] for name in free} if self.best != self.rule else {},
            timings={self.label(name): microseconds(one) for name, one in self.spreads.items()},
        )

    def json(self) -> dict[str, Any]:
        """The fields a program reads; seconds."""
        return {
            "op": self.of.op,
            "target": self.of.target,
            "cell": self.of.cell.name,
            "call": {**self.of.exact, **self.of.ranges},
            "rule": self.rule,
            "best": self.best,
            "seconds": {name: vars(one) for name, one in self.spreads.items()},
        }


def tune(one: CallClass, policy: Policy, timer: Timer) -> Tuned:
    """Measure one class and decide. Raises KgenError as the timer does."""
    rule = rules_choice(one, policy)
    spreads = spreads_of(timer(one))
    return Tuned(one, spreads, rule, winner(spreads, rule))


def rules_choice(one: CallClass, policy: Policy) -> str:
    """The variant that the operator's rules choose among those of a class, for the call in its middle."""
    names = on_target(policy, one.point, one.target)
    bound = Bound(names, {}, {}, {}, frozenset(), "cpu")
    kernels = [Built(_entry(variant), Path(), "tune") for variant in one.variants]
    chosen = select(policy, bound, kernels, jit=False).kernel
    assert chosen is not None  # without building, one of those given is chosen
    return chosen.entry.name


def _entry(variant: Variant) -> Entry:
    """A variant as a library would list it: what selection looks at."""
    return Entry(variant.name, variant.op.name, "", variant.params, variant.target.name, "", "", "", "")


def file_of(one: CallClass, folder: Path) -> Path:
    """The table that a class belongs to: one for each operator, target and set of fixed parameters."""
    op = one.variants[0].op
    params: Mapping[str, Scalar] = one.variants[0].params
    tags = [
        param.spelt(params[param.name])
        for param in op.params
        if param.name in one.exact and param.default is None
    ]
    return folder / f"{one.op}.{one.target}.{'_'.join(tags)}.yaml"


def merged(found: TuningTable, kept: TuningTable | None) -> TuningTable:
    """A table with the classes of another that it does not have itself, where both are of one compiler."""
    if kept is None or (kept.op, kept.target, kept.compiler) != (found.op, found.target, found.compiler):
        return found
    mine = {one.key for one in found.classes}
    return replace(found, classes=(*found.classes, *(one for one in kept.classes if one.key not in mine)))


def write(table: TuningTable, file: Path) -> None:
    """Write a table, whole or not at all. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    part.write_text(tuning_text(table), encoding="utf-8")
    part.replace(file)


def microseconds(one: Spread) -> str:
    """A time with its quartiles."""
    return f"{one.median * 1e6:.1f} us ({one.low * 1e6:.1f} to {one.high * 1e6:.1f})"
