"""What it takes to give sequences more slots: pages to open, and shared pages to copy first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kgen.runtime.pages import Pages
from kgen.runtime.tables import Table, pages_for


class Growth(NamedTuple):
    """For one table: pages to open after its last, and whether that one is copied because others hold it."""

    table: Table
    fresh: int
    copied: bool


def plan_growth(tables: Iterable[Table], ref_counts: Pages, block_size: int, count: int) -> list[Growth]:
    """`count` slots more for each table, in this order: of several that share a last page, the one that comes
    when no other holds it any more writes in place."""
    holders: dict[int, int] = {}
    found = []
    for table in tables:
        copied = False
        if count and table.length % block_size:
            page = int(table.pages[-1])
            holders[page] = holders.get(page, int(ref_counts[page])) - 1
            copied = holders[page] > 0
        fresh = pages_for(table.length + count, block_size) - table.num_pages
        found.append(Growth(table, fresh, copied))
    return found
