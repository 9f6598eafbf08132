"""Memory that gives each request one region, the first hole that is large enough."""

from __future__ import annotations

from bisect import insort


class ContiguousMemory:
    """`size` units. Regions are (start, length); free neighbours join."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._holes = [(0, size)] if size else []

    @property
    def num_free(self) -> int:
        """Units of all holes together."""
        return sum(length for _, length in self._holes)

    def allocate(self, length: int) -> int | None:
        """The start of a new region, or None when no hole holds it."""
        for place, (start, free) in enumerate(self._holes):
            if free >= length:
                rest = [(start + length, free - length)] if free > length else []
                self._holes[place : place + 1] = rest
                return start
        return None

    def release(self, start: int, length: int) -> None:
        """Give a region back."""
        insort(self._holes, (start, length))
        joined: list[tuple[int, int]] = []
        for hole in self._holes:
            if joined and sum(joined[-1]) == hole[0]:
                joined[-1] = (joined[-1][0], joined[-1][1] + hole[1])
            else:
                joined.append(hole)
        self._holes = joined
