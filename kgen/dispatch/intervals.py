"""Ints that move with scalars, and the intervals of the scalars in which they move as they do.

Sums and products of them move too, while at most one scalar is in them; where two meet, one is held: its
interval narrows to where the int has the value it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgen.arithmetic import BINARY, FUNCTIONS, INT_MAX, INT_MIN, check_int
from kgen.dispatch.paths import Interval, Path


@dataclass(frozen=True)
class Tracked:
    """A value and its path; without one it stays."""

    value: Any
    path: Path | None = None


class Intervals:
    """Of each of the int `scalars`, where all that was done so far goes the same way (`intervals`). Where two
    meet, the one that was named first goes on moving."""

    def __init__(self, scalars: Mapping[str, int]) -> None:
        self.intervals: dict[str, Interval] = dict.fromkeys(scalars, (INT_MIN, INT_MAX))
        self._scalars = dict(scalars)

    def pin(self, *names: str) -> None:
        """Let these scalars have no other value; none: let none of them."""
        for name in names or self._scalars:
            self.intervals[name] = (self._scalars[name], self._scalars[name])

    def within(self, tracked: Tracked, low: int, high: int) -> None:
        """Narrow the interval to where low <= value <= high, as is so here."""
        if tracked.path is not None:
            of = tracked.path.of
            (least, most), (first, last) = tracked.path.back(low, high), self.intervals[of]
            self.intervals[of] = max(first, least), min(last, most)

    def held(self, tracked: Tracked) -> Tracked:
        """The value with the interval narrowed to where it has it."""
        self.within(tracked, tracked.value, tracked.value)
        return Tracked(tracked.value)

    def straight(self, tracked: Tracked, factor: int, offset: int) -> Tracked:
        """factor * value + offset, while it fits 64 bits."""
        value = check_int(factor * tracked.value + offset)
        if tracked.path is None or not factor:
            return Tracked(value)
        path = tracked.path.straight(factor, offset)
        if max(abs(path.factor), abs(path.offset)) > INT_MAX:
            self.held(tracked)
            return Tracked(value)
        found = Tracked(value, path)
        self.within(found, INT_MIN, INT_MAX)
        return found

    def sum(self, left: Tracked, right: Tracked, sign: int = 1) -> Tracked:
        """left + right, or with a sign of -1 left - right, of two ints, while it fits 64 bits."""
        return self.straight(self.apart(left, right, sign), 1, 0)

    def product(self, left: Tracked, right: Tracked) -> Tracked:
        """left * right, of two ints, while it fits 64 bits."""
        if left.path is not None and right.path is not None:
            left, right = self._one_held(left, right)
        moving, still = (right, left) if left.path is None else (left, right)
        return self.straight(moving, still.value, 0)

    def _one_held(self, left: Tracked, right: Tracked) -> tuple[Tracked, Tracked]:
        """Both, of which one keeps its value: that of the scalar that was named later, or that of one scalar
        which has a bend, and keeps it longer."""
        assert left.path is not None and right.path is not None
        places = [list(self._scalars).index(path.of) for path in (left.path, right.path)]
        first = places[0] > places[1] if places[0] != places[1] else not right.path.bends
        return (self.held(left), right) if first else (left, self.held(right))

    def apart(self, left: Tracked, right: Tracked, sign: int = -1) -> Tracked:
        """left - right, or with a sign of 1 left + right, of two ints, without the limit of 64 bits."""
        if left.path is not None and right.path is not None and not _alike(left.path, right.path):
            left, right = self._one_held(left, right)
        value = left.value + sign * right.value
        if right.path is None:
            return Tracked(value, left.path and left.path.straight(1, sign * right.value))
        if left.path is None:
            return Tracked(value, right.path.straight(sign, left.value))
        factor = left.path.factor + sign * right.path.factor
        offset = left.path.offset + sign * right.path.offset
        return Tracked(value, Path(left.path.of, left.path.bends, factor, offset) if factor else None)

    def bent(self, tracked: Tracked, kind: str, by: int) -> Tracked:
        """`//`, by a divisor above 0, `min` or `max` of a value and a number."""
        value = BINARY["//"](tracked.value, by) if kind == "//" else FUNCTIONS[kind](tracked.value, by)
        return Tracked(value, tracked.path and tracked.path.bent(kind, by))


def _alike(left: Path, right: Path) -> bool:
    return left.of == right.of and left.bends == right.bends
