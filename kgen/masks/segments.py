"""The loops over keys that a mask leaves for a tile of queries.

Segments are runs of whole tiles of keys, in order, without overlap: `full` ones, every pair of which is
visible, need no test of the mask; in the others each pair is tested. Tiles start at `kv.begin` and are
`tile` keys long; only what reaches the end of all visible keys may end inside a tile, and is never full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from kgen.algebra.bounds import Bounds, range_of
from kgen.algebra.simplify import simplify
from kgen.masks.regions import BOUNDS, KV_BEGIN, Case, Interval, Regions
from kgen.masks.spread import Q_HIGH, Q_LOW
from kgen.spec.evaluate import evaluate_expr
from kgen.syntax.ast import Binary, Bool, Call, Compare, Expr, If, Int, Name, substitute

TILE = Name("tile")


@dataclass(frozen=True)
class Step:
    """A value computed on the way to the segments; later steps and segments use its name."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Segment:
    """Keys from `begin` to before `end`; begin <= end."""

    begin: Expr
    end: Expr
    full: bool


@dataclass(frozen=True)
class Segments:
    """Steps in the order in which they are computed, and the segments, in the order of the keys.

    The free names are `q.lo`, `q.hi`, `kv.begin`, `kv.end`, `tile` and the variant's arguments."""

    steps: tuple[Step, ...]
    segments: tuple[Segment, ...]

    def at(self, names: Mapping[str, Any]) -> tuple[tuple[int, int, bool], ...]:
        """(begin, end, full) of each segment that is not empty, for values of all free names."""
        known = dict(names)
        for step in self.steps:
            known[step.name] = evaluate_expr(step.value, known)
        found = []
        for segment in self.segments:
            begin, end = (int(evaluate_expr(side, known)) for side in (segment.begin, segment.end))
            if begin < end:
                found.append((begin, end, segment.full))
        return tuple(found)


def segments(
    regions: Regions,
    begin: Expr = KV_BEGIN,
    tile: Expr = TILE,
    queries: tuple[Expr, Expr] = (Q_LOW, Q_HIGH),
) -> Segments:
    """The segments of a mask's regions. `begin` and `tile` may be numbers; a tile has at least one key.

    `queries` are the first and last of the tile. With one query, and tiles of one key, a mask that is
    known throughout leaves only full segments."""
    return _Builder(begin, tile, queries).run(regions.cases)


class _Builder:
    def __init__(self, begin: Expr, tile: Expr, queries: tuple[Expr, Expr]) -> None:
        self._begin, self._tile = begin, tile
        self._values = {KV_BEGIN.name: begin, Q_LOW.name: queries[0], Q_HIGH.name: queries[1]}
        self._bounds: dict[str, tuple[int | None, int | None]] = {**BOUNDS, TILE.name: (1, None)}
        self._steps: list[Step] = []
        self._segments: list[Segment] = []

    def run(self, cases: Sequence[Case]) -> Segments:
        placed = [Case(self._placed(c.visible), tuple(map(self._placed, c.full))) for c in cases]
        if len(placed) > 2:
            placed = [_together(placed)]
        if len(placed) == 2:
            first, second = self._ordered(*placed)
            self._add(second, self._add(first, self._begin, until=second))
        elif placed:
            self._add(placed[0], self._begin)
        return Segments(tuple(self._steps), tuple(self._segments))

    def _placed(self, interval: Interval) -> Interval:
        begin, end = (substitute(side, self._values) for side in (interval.begin, interval.end))
        return Interval(self._simple(begin), self._simple(end))

    def _add(self, case: Case, after: Expr, until: Case | None = None) -> Expr:
        """The segments of a case behind `after`; returns where they end. What follows them, `until`,
        shares no tile with them."""
        begin = self._step("keys_begin", _most(after, self._down(case.visible.begin)))
        end = self._step("keys_end", _most(begin, self._last(case, until)))
        for full in case.full:
            full_begin, full_end = begin, end
            if self._up(full.begin) != self._down(case.visible.begin):
                full_begin = self._step("full_begin", _least(_most(begin, self._up(full.begin)), end))
            if self._tile != Int(1) or full.end != case.visible.end:
                full_end = self._step("full_end", _most(full_begin, self._down(_most(self._begin, full.end))))
            self._segment(begin, full_begin, full=False)
            self._segment(full_begin, full_end, full=True)
            begin = full_end
        self._segment(begin, end, full=False)
        return end

    def _last(self, case: Case, until: Case | None) -> Expr:
        end = case.visible.end
        if until is None:
            return end
        return _least(self._up(_most(self._begin, end)), _most(end, until.visible.end))

    def _ordered(self, one: Case, two: Case) -> tuple[Case, Case]:
        """Two cases, the one that begins first before the other."""
        starts = Compare(("<=",), (one.visible.begin, two.visible.begin))
        if one.visible.begin == self._begin or self._simple(starts) == Bool(True):
            return one, two
        if two.visible.begin == self._begin:
            return two, one
        first = _choice(starts, one, two)
        return first, _choice(starts, two, one)

    def _down(self, key: Expr) -> Expr:
        """The start of the tile in which a key lies, a key that is not before the first."""
        if key == self._begin or self._tile == Int(1):
            return key
        tiles = Binary("//", Binary("-", key, self._begin), self._tile)
        return Binary("+", self._begin, Binary("*", tiles, self._tile))

    def _up(self, key: Expr) -> Expr:
        """The first start of a tile that is not before a key."""
        if key == self._begin or self._tile == Int(1):
            return key
        return self._down(Binary("+", key, Binary("-", self._tile, Int(1))))

    def _segment(self, begin: Expr, end: Expr, full: bool) -> None:
        if begin != end:
            self._segments.append(Segment(begin, end, full))

    def _step(self, name: str, value: Expr) -> Expr:
        value = self._simple(value)
        if isinstance(value, Int | Name):
            return value
        for step in self._steps:
            if step.value == value:
                return Name(step.name)
        taken = sum(step.name.startswith(name) for step in self._steps)
        step = Step(f"{name}_{taken + 1}" if taken else name, value)
        low, high = range_of(value, self._bounds)
        self._bounds[step.name] = (_finite(low), _finite(high))
        self._steps.append(step)
        return Name(step.name)

    def _simple(self, value: Expr) -> Expr:
        return simplify(value, self._bounds)


def bounds_of(found: Segments, bounds: Bounds) -> Bounds:
    """Limits of the steps beside those of the free names."""
    known = dict(bounds)
    for step in found.steps:
        low, high = range_of(step.value, known)
        known[step.name] = (_finite(low), _finite(high))
    return known


def _finite(value: int | float) -> int | None:
    return value if isinstance(value, int) else None


def _choice(condition: Expr, one: Case, two: Case) -> Case:
    """The case `one` where a condition holds, else `two`."""

    def between(a: Interval, b: Interval) -> Interval:
        return Interval(If(condition, a.begin, b.begin), If(condition, a.end, b.end))

    nothing = Interval(Int(0), Int(0))
    full = [case.full[0] if case.full else nothing for case in (one, two)]
    return Case(between(one.visible, two.visible), (between(*full),))


def _together(cases: Sequence[Case]) -> Case:
    """One case around all of them; two of their intervals are kept as full ones."""
    begin = reduce(_least, (case.visible.begin for case in cases))
    end = reduce(_most, (case.visible.end for case in cases))
    return Case(Interval(begin, end), tuple(full for case in cases for full in case.full)[:2])


def _least(a: Expr, b: Expr) -> Expr:
    return a if a == b else Call("min", (a, b))


def _most(a: Expr, b: Expr) -> Expr:
    return a if a == b else Call("max", (a, b))
