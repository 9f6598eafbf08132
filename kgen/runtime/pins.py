"""Locks that end by themselves at a time."""

from __future__ import annotations

import heapq

from kgen.runtime.clock import Clock
from kgen.runtime.results import Lock


class Pins:
    """Pinned locks by the time they end; those released early are still in here until then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: list[tuple[float, int, Lock]] = []

    def __bool__(self) -> bool:
        return bool(self._ends)

    def add(self, lock: Lock, seconds: float) -> None:
        """Let `lock` end in so many seconds."""
        heapq.heappush(self._ends, (self._clock() + seconds, lock.serial, lock))

    def due(self) -> list[Lock]:
        """Take out the locks whose time has come."""
        now = self._clock()
        found = []
        while self._ends and self._ends[0][0] <= now:
            found.append(heapq.heappop(self._ends)[2])
        return found
