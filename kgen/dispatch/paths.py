"""How an int follows from a scalar: straight pieces and bends, behind one another, each rising or falling.

A path is what a launch needs to compute the int again for another value of the scalar, and it can be gone
backwards: from the values that the int may have to those of the scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Interval = tuple[int, int]
"""Both ends belong to it."""
FAR = 2**66
"""Beyond every difference of two ints of 64 bits."""


@dataclass(frozen=True)
class Bend:
    """x becomes factor * x + offset, then that `//`, `min` or `max` of `by`, a divisor being above 0."""

    factor: int
    offset: int
    kind: str
    by: int


@dataclass(frozen=True)
class Path:
    """The scalar `of`, bent so often, then times `factor` plus `offset`."""

    of: str
    bends: tuple[Bend, ...] = ()
    factor: int = 1
    offset: int = 0

    def at(self, value: int) -> int:
        """The int where the scalar has this value."""
        for bend in self.bends:
            value = _ALONG[bend.kind](bend.factor * value + bend.offset, bend.by)
        return self.factor * value + self.offset

    def back(self, low: int, high: int) -> Interval:
        """Where the scalar lies while low <= int <= high, which holds for some value of it."""
        low, high = _straight(self.factor, self.offset, low, high)
        for bend in reversed(self.bends):
            low, high = _straight(bend.factor, bend.offset, *_BACK[bend.kind](bend.by, low, high))
        return low, high

    def bent(self, kind: str, by: int) -> Path:
        """The path with one more bend."""
        return Path(self.of, (*self.bends, Bend(self.factor, self.offset, kind, by)))

    def straight(self, factor: int, offset: int) -> Path:
        """factor times the int, plus offset."""
        return Path(self.of, self.bends, factor * self.factor, factor * self.offset + offset)


def _straight(factor: int, offset: int, low: int, high: int) -> Interval:
    """Where x lies while low <= factor * x + offset <= high."""
    low, high = low - offset, high - offset
    if factor < 0:
        factor, low, high = -factor, -high, -low
    return -(-low // factor), high // factor


_ALONG: Mapping[str, Callable[[int, int], int]] = {"//": lambda x, by: x // by, "min": min, "max": max}
_BACK: Mapping[str, Callable[[int, int, int], Interval]] = {
    "//": lambda by, low, high: (low * by, high * by + by - 1),
    "min": lambda by, low, high: (low, FAR if by <= high else high),
    "max": lambda by, low, high: (-FAR if by >= low else low, high),
}
