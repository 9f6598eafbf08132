"""Sequences whose pages are in host memory for now."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from kgen.runtime.errors import fault
from kgen.runtime.growth import plan_growth
from kgen.runtime.pages import PagePool, Pages
from kgen.runtime.tables import Table


class SwapSpace:
    """`num_pages` host pages, and the tables of sequences in them. A page shared by forks is kept once."""

    def __init__(self, num_pages: int) -> None:
        self.pool = PagePool(num_pages)
        self.tables: dict[Hashable, Table] = {}

    def __contains__(self, seq_id: Hashable) -> bool:
        return seq_id in self.tables

    def need(self, tables: Iterable[Table]) -> int:
        """Host pages that these device tables take."""
        return len(_distinct([table.pages for table in tables]))

    def pages_of(self, seq_ids: Iterable[Hashable]) -> int:
        """Distinct host pages of swapped sequences, which is also the device pages they need."""
        return len(_distinct([self._table(seq_id).pages for seq_id in seq_ids]))

    def pages_to_append(self, seq_ids: Iterable[Hashable], block_size: int) -> int:
        """Pages that a slot more for each would take, once they are back."""
        tables = [self._table(seq_id) for seq_id in seq_ids]
        growth = plan_growth(tables, self.pool.ref_counts, block_size, 1)
        return sum([fresh + copied for _, fresh, copied in growth])

    def take(self, seq_ids: Sequence[Hashable], tables: Sequence[Table]) -> list[tuple[int, int]]:
        """Keep these tables on host pages; returns (device page, host page) pairs. Raises K702."""
        moved, pairs = _move(tables, self.pool)
        self.tables.update(zip(seq_ids, moved, strict=True))
        return pairs

    def give_back(
        self, seq_ids: Sequence[Hashable], device: PagePool
    ) -> tuple[list[tuple[int, int]], dict[Hashable, Table]]:
        """Move sequences to pages of `device`; returns (host page, device page) pairs, and their tables."""
        moved, pairs = _move([self._table(seq_id) for seq_id in seq_ids], device)
        for seq_id in seq_ids:
            self.free(seq_id)
        return pairs, dict(zip(seq_ids, moved, strict=True))

    def free(self, seq_id: Hashable) -> None:
        """Forget a sequence."""
        table = self._table(seq_id)
        if table.num_pages:
            self.pool.release(table.pages)
        del self.tables[seq_id]

    def _table(self, seq_id: Hashable) -> Table:
        table = self.tables.get(seq_id)
        if table is None:
            raise fault("K705", f"sequence {seq_id!r} is not swapped out")
        return table


def _move(tables: Sequence[Table], pool: PagePool) -> tuple[list[Table], list[tuple[int, int]]]:
    """The same tables on new pages of `pool`, sharing among themselves what they shared."""
    sources = _distinct([table.pages for table in tables])
    targets = pool.allocate(len(sources))
    moved = []
    seen = np.zeros(len(sources), bool)
    for table in tables:
        at = np.searchsorted(sources, table.pages)
        pool.share(targets[at[seen[at]]])
        seen[at] = True
        moved.append(Table(targets[at], table.length))
    return moved, list(zip(sources.tolist(), targets.tolist(), strict=True))


def _distinct(pages: Sequence[Pages]) -> Pages:
    """Each page once, in rising order."""
    return np.unique(np.concatenate(pages)) if pages else np.empty(0, np.int32)
