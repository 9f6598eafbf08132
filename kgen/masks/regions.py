"""What a mask leaves of the keys, for a tile of queries: where some query sees a key, and where all do.

A mask is a union of cases, each an interval of keys whose ends are expressions over the ends of the query
tile. `visible` holds every key that any query of the tile may see, and `full` only keys that all of them
see: what is in between is tested key by key. `kgen.masks.segments` makes loops of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from kgen.algebra.bounds import Bounds
from kgen.algebra.simplify import simplify
from kgen.masks.formula import All, AnyOf, AtLeast, Formula, Truth, formula_of
from kgen.masks.spread import spread
from kgen.spec.model import VariantSpec
from kgen.syntax.ast import Binary, Call, Compare, Expr, If, Int, Name, Unary

KV_BEGIN, KV_END = Name("kv.begin"), Name("kv.end")
"""The keys there are, or those of one of two places they lie in."""
BOUNDS: Bounds = {"kv.begin": (0, None), "kv.end": (0, None)}
MAX_CASES = 4
"""More cases than these are taken together."""


Conjunction = tuple[Formula, ...]
"""Comparisons that hold together."""


@dataclass(frozen=True)
class Interval:
    """Keys from `begin` to before `end`, which is never past `kv.end`; none where `end` <= `begin`."""

    begin: Expr
    end: Expr


@dataclass(frozen=True)
class Case:
    """One interval of visible keys, and the intervals inside it whose keys are seen by the whole tile."""

    visible: Interval
    full: tuple[Interval, ...]


@dataclass(frozen=True)
class Regions:
    """The cases of a mask, no two of which begin or end alike. `exact` where the mask leaves nothing
    unknown: then no key between the ends of a case is without a query that may see it."""

    cases: tuple[Case, ...]
    exact: bool


EVERYTHING = Interval(KV_BEGIN, KV_END)


def regions(variant: VariantSpec) -> Regions:
    """The regions of a variant's mask."""
    floats = frozenset(name for name, kind in variant.args.items() if "float" in str(kind))
    positive = frozenset(_above_zero(guard.check) for guard in variant.guards)
    formula = formula_of(variant.mask, floats)
    conjunctions = list(_conjunctions(formula))
    if len(conjunctions) > MAX_CASES:
        return Regions((Case(EVERYTHING, ()),), exact=False)
    cases = [_case(parts, positive) for parts in conjunctions]
    merged = _merged(cases)
    return Regions(tuple(merged), exact=all(_is_known(part) for parts in conjunctions for part in parts))


def _above_zero(check: Expr) -> str:
    """The name a guard holds above 0; empty where it says something else."""
    match check:
        case Compare(ops=(">",), operands=(Name(name=name), Int(value=0))):
            return name
    return ""


def _is_known(part: Formula) -> bool:
    return isinstance(part, AtLeast)


def _conjunctions(formula: Formula) -> Iterator[Conjunction]:
    """The formula as alternatives, each a list of comparisons that hold together."""
    match formula:
        case Truth():
            if formula.value:
                yield ()
        case AnyOf():
            for part in formula.parts:
                yield from _conjunctions(part)
        case All():
            none: list[Conjunction] = [()]
            yield from reduce(_products, formula.parts, none)
        case _:
            yield (formula,)


def _products(heads: list[Conjunction], part: Formula) -> list[Conjunction]:
    """Each head with each alternative of `part`, no more than it takes to see that they are too many."""
    tails = list(_conjunctions(part))
    return [(*head, *tail) for head in heads for tail in tails][: MAX_CASES + 1]


def _case(parts: Sequence[Formula], positive: frozenset[str]) -> Case:
    visible, full = EVERYTHING, EVERYTHING
    known = True
    for part in parts:
        if not isinstance(part, AtLeast):
            known = False
            continue
        low, high = spread(part.rest, positive)
        visible = visible if high is None else _cut(visible, part.factor, high)
        known = known and low is not None
        full = full if low is None else _cut(full, part.factor, low)
    return Case(_simple(visible), (_simple(full),) if known else ())


def _cut(interval: Interval, factor: int, rest: Expr) -> Interval:
    """What factor * kv + rest >= 0 leaves of an interval."""
    if factor == 0:
        end = If(Compare((">=",), (rest, Int(0))), interval.end, KV_BEGIN)
        return replace(interval, end=end)
    quotient = rest if abs(factor) == 1 else Binary("//", rest, Int(abs(factor)))
    if factor > 0:
        return replace(interval, begin=Call("max", (interval.begin, Unary("neg", quotient))))
    return replace(interval, end=Call("min", (interval.end, Binary("+", quotient, Int(1)))))


def _merged(cases: Sequence[Case]) -> list[Case]:
    """Cases that begin or end alike are one: their union is an interval."""
    found: list[Case] = []
    for case in cases:
        for place, other in enumerate(found):
            union = _union(other.visible, case.visible)
            if union is not None:
                found[place] = Case(union, _joined(other.full, case.full))
                break
        else:
            found.append(case)
    return found


def _joined(one: Sequence[Interval], two: Sequence[Interval]) -> tuple[Interval, ...]:
    joined = list(one)
    for interval in two:
        for place, other in enumerate(joined):
            union = _union(other, interval)
            if union is not None:
                joined[place] = union
                break
        else:
            joined.append(interval)
    return tuple(joined)


def _union(one: Interval, two: Interval) -> Interval | None:
    """The union of two intervals that share an end, else None."""
    if one.begin == two.begin:
        return _simple(Interval(one.begin, Call("max", (one.end, two.end))))
    if one.end == two.end:
        return _simple(Interval(Call("min", (one.begin, two.begin)), one.end))
    return None


def _simple(interval: Interval) -> Interval:
    return Interval(simplify(interval.begin, BOUNDS), simplify(interval.end, BOUNDS))
