"""How memory is used while requests run."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.runtime import Scheduler


@dataclass(frozen=True)
class Usage:
    """Means over time of what running requests hold. `pages`: part of all pages in their tables, shared ones
    once. `tail`: part of these pages' slots that lies behind a last token, which is what paging wastes.
    `unwritten`: part of these slots that waits for its prompt to be computed. `sequences`: how many run;
    `most`: at once. `cached`: part of all pages that only the cache still holds."""

    pages: float
    tail: float
    unwritten: float
    cached: float
    sequences: float
    most: int


class Sampler:
    """Adds up steps, each weighted by how long it takes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._seconds = 0.0
        self._pages = self._tail = self._unwritten = self._cached = self._sequences = 0.0
        self._most = 0

    def step(self, seconds: float) -> None:
        """Look at a step that is planned and takes so long."""
        manager = self._scheduler.manager
        size, pool, cache = manager.block_size, manager.pool, manager.cache
        evictable = cache.evictable_pages if cache is not None else 0
        tail = unwritten = count = 0
        for job in self._scheduler.jobs.running.values():
            for sequence in job.sequences:
                if sequence.resident:
                    table = manager.tables[sequence.seq_id]
                    tail += table.num_pages * size - table.length
                    unwritten += max(0, sequence.goal - sequence.written)
                    count += 1
        self._seconds += seconds
        self._pages += seconds * (pool.num_pages - pool.num_free - evictable)
        self._tail += seconds * tail
        self._unwritten += seconds * unwritten
        self._cached += seconds * evictable
        self._sequences += seconds * count
        self._most = max(self._most, count)

    def usage(self) -> Usage:
        """The means so far; all 0 before the first step."""
        manager = self._scheduler.manager
        time = self._seconds or 1.0
        slots = self._pages * manager.block_size or 1.0
        total = manager.pool.num_pages * time
        return Usage(
            pages=self._pages / total,
            tail=self._tail / slots,
            unwritten=self._unwritten / slots,
            cached=self._cached / total,
            sequences=self._sequences / time,
            most=self._most,
        )
