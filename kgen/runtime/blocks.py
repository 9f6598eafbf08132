"""The block manager: tables of sequences over one pool of pages, with or without a radix cache.

A sequence begins with pages the cache has for its prefix, locked, and goes on with pages of its own. A
fork copies no byte: parent and child hold the same pages. Who appends to a page that others hold too gets a
copy of it first; the last holder writes in place. Pages of the tree are never written.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import torch

from kgen.runtime.checks import check_after
from kgen.runtime.errors import fault, out_of_pages, whole
from kgen.runtime.growth import Growth, plan_growth
from kgen.runtime.keys import DEFAULT, TOKEN_BYTES, Namespace
from kgen.runtime.pages import PagePool, Pages
from kgen.runtime.radix import RadixCache
from kgen.runtime.results import Match
from kgen.runtime.room import Room
from kgen.runtime.swap import SwapSpace
from kgen.runtime.tables import Slots, Table, padded, pages_for, token_slots

Pair = tuple[int, int]
"""A source page and a destination page."""

_CHANGES = ("allocate", "append_slots", "try_append", "fork", "checkpoint", "free", "swap_out", "swap_in")


class BlockManager:
    """Block tables by sequence id, over `pool`, and over `cache` if one is given (of the same pool).

    `watermark`: the part of all pages that stays free when a sequence is admitted. `host_pages`: pages in
    host memory to swap to.
    """

    def __init__(
        self,
        pool: PagePool,
        block_size: int,
        cache: RadixCache | None = None,
        *,
        watermark: float = 0.01,
        host_pages: int = 0,
        check: bool | None = None,
    ) -> None:
        self.block_size = whole("block_size", block_size, 1)
        if cache is not None and (cache.pool is not pool or cache.page_size != block_size):
            raise fault("K701", "the cache must be over the same pool, in pages of the same size")
        if not 0 <= watermark < 1:
            raise fault("K701", f"watermark is {watermark}, expected a part from 0 to below 1")
        self.pool = pool
        self.cache = cache
        self.watermark_pages = int(watermark * pool.num_pages)
        self.tables: dict[Hashable, Table] = {}
        self.swap = SwapSpace(host_pages)
        check_after(self, _CHANGES, check)

    def room_for(self, num_tokens: int, match: Match | None = None) -> Room:
        """Whether `allocate` with these arguments would leave the watermark free."""
        need = pages_for(whole("num_tokens", num_tokens), self.block_size)
        if need > self.pool.num_pages - self.watermark_pages:
            return Room.NEVER
        lost = 0
        if match is not None and self.cache is not None:
            need -= len(match.pages)
            lost = self.cache.unprotected_pages(match)
        return self._room(need + lost)

    def allocate(
        self,
        seq_id: Hashable,
        num_tokens: int,
        match: Match | None = None,
        namespace: Namespace = DEFAULT,
    ) -> None:
        """Give a new sequence slots for `num_tokens`, the first `match.length` of them from the cache.

        The match is locked until `free`. Raises K702 when pages are short (the watermark is the caller's
        business, see `room_for`), K705 when the id is taken.
        """
        self._require_new(seq_id)
        if match is not None and self.cache is None:
            raise fault("K701", "a match was given to a block manager without a cache")
        cached = match.length if match is not None else 0
        if whole("num_tokens", num_tokens) < cached:
            raise fault("K701", f"{num_tokens} tokens are fewer than the {cached} that were matched")
        table = Table(np.empty(0, np.int32), num_tokens)
        if self.cache is not None:
            table.lock = self.cache.lock(match) if match is not None else self.cache.lock_root(namespace)
        if match is not None:
            table.extend(match.pages)
            table.num_locked = len(match.pages)
        try:
            table.extend(self.pool.allocate(pages_for(num_tokens, self.block_size) - table.num_locked))
        except BaseException:
            self._unlock(table)
            raise
        self.tables[seq_id] = table

    def pages_to_append(self, seq_ids: Iterable[Hashable], count: int = 1) -> int:
        """New pages that `append_slots` with these arguments takes."""
        return sum([fresh + copied for _, fresh, copied in self._growth(seq_ids, count)])

    def append_slots(self, seq_ids: Sequence[Hashable], count: int = 1) -> list[Pair]:
        """Give each sequence `count` slots more. Returns the pages to copy before anything is written.

        All or none: raises K702 when pages are short, with nothing changed.
        """
        pairs = self.try_append(seq_ids, count)
        if pairs is None:
            need = self.pages_to_append(seq_ids, count)
            raise out_of_pages(need, self.pool.num_free, self.pool.num_available - self.pool.num_free)
        return pairs

    def try_append(self, seq_ids: Sequence[Hashable], count: int = 1) -> list[Pair] | None:
        """`append_slots`, but None when pages are short."""
        if len(set(seq_ids)) != len(seq_ids):
            raise fault("K705", "a sequence occurs twice in one call")
        growth = self._growth(seq_ids, whole("count", count))
        need = sum([fresh + copied for _, fresh, copied in growth])
        if need > self.pool.num_available:
            return None
        new = iter(self.pool.allocate(need).tolist())
        pairs = []
        for table, fresh, copied in growth:
            if copied:
                pairs.append((int(table.pages[-1]), next(new)))
                self.pool.release(table.pages[-1:])
                table.pages[-1] = pairs[-1][1]
            for _ in range(fresh):
                table.add(next(new))
            table.length += count
        return pairs

    def fork(self, parent_id: Hashable, child_id: Hashable, num_tokens: int | None = None) -> None:
        """A new sequence with the same pages, or with those of the first `num_tokens` tokens, a whole number
        of pages that reaches at least as far as the lock. Takes no page; each page counts one holder more."""
        self._require_new(child_id)
        parent = self.table(parent_id)
        length = parent.length if num_tokens is None else whole("num_tokens", num_tokens)
        count = pages_for(length, self.block_size)
        partial = length % self.block_size and length != parent.length
        if partial or not parent.num_locked <= count <= parent.num_pages:
            low, high = parent.num_locked * self.block_size, parent.length
            message = f"a fork at token {length} needs whole pages, from token {low} to {high}"
            raise fault("K701", message)
        self.pool.share(parent.pages[parent.num_locked : count])
        lock = None
        if parent.lock is not None and self.cache is not None:
            lock = self.cache.relock(parent.lock)
        self.tables[child_id] = Table(parent.pages[:count], length, parent.num_locked, lock)

    def checkpoint(self, seq_id: Hashable, data: bytes, written: int, priority: int = 0) -> int:
        """Give the tree the full pages among the first `written` tokens, whose KV must be in memory, and move
        the lock to where they end. `data`: the sequence's tokens as `token_bytes`.

        Where the tree has the tokens already, the table changes to its pages and the own copies are
        released. Stops before a page that a fork holds too. Returns the tokens now under the lock.
        """
        table = self.table(seq_id)
        if table.lock is None or self.cache is None:
            raise fault("K705", f"sequence {seq_id!r} has no lock in a cache")
        if not 0 <= written <= min(table.length, len(data) // TOKEN_BYTES):
            raise fault("K701", f"{written} written tokens do not fit a sequence of {table.length} slots")
        first, last = table.num_locked, written // self.block_size
        last = first + self._unshared(table.pages[first:last])
        if last > first:
            size = self.block_size * TOKEN_BYTES
            own = table.pages[first:last]
            table.lock, stored = self.cache.extend(
                table.lock, data[first * size : last * size], own, priority
            )
            own[: len(stored.existing)] = stored.existing
            table.num_locked = last
            if len(stored.duplicates):
                self.pool.release(stored.duplicates)
        return table.num_locked * self.block_size

    def free(self, seq_id: Hashable) -> None:
        """End a sequence, on the device or swapped out: its pages and its lock are released."""
        if seq_id in self.swap:
            self.swap.free(seq_id)
            return
        self._give_up(self.table(seq_id))
        del self.tables[seq_id]

    def swap_out(self, seq_ids: Sequence[Hashable]) -> list[Pair]:
        """Move sequences to host pages, each distinct page once. Returns (device page, host page) pairs to
        copy before device memory is written. Raises K702, with nothing changed, when host pages are short."""
        tables = [self.table(seq_id) for seq_id in seq_ids]
        pairs = self.swap.take(seq_ids, tables)
        for seq_id, table in zip(seq_ids, tables, strict=True):
            self._give_up(table)
            del self.tables[seq_id]
        return pairs

    def room_to_swap_out(self, seq_ids: Iterable[Hashable]) -> bool:
        """Whether host memory has the pages that these sequences need."""
        return self.swap.need([self.table(seq_id) for seq_id in seq_ids]) <= self.swap.pool.num_available

    def room_to_swap_in(self, seq_ids: Sequence[Hashable]) -> Room:
        """Whether swapped sequences can come back and each get a slot more."""
        need = self.swap.pages_of(seq_ids) + self.swap.pages_to_append(seq_ids, self.block_size)
        return Room.NEVER if need > self.pool.num_pages else self._room(need)

    def swap_in(self, seq_ids: Sequence[Hashable], namespace: Namespace = DEFAULT) -> list[Pair]:
        """Bring sequences back to new pages. Returns (host page, device page) pairs; the host pages may be
        used again once these are copied. Raises K702, with nothing changed, when pages are short."""
        pairs, tables = self.swap.give_back(seq_ids, self.pool)
        for table in tables.values():
            if self.cache is not None:
                table.lock = self.cache.lock_root(namespace)
        self.tables.update(tables)
        return pairs

    def table(self, seq_id: Hashable) -> Table:
        """The table of a sequence; raises K705 where there is none on the device."""
        table = self.tables.get(seq_id)
        if table is None:
            where = "is swapped out" if seq_id in self.swap else "does not exist"
            raise fault("K705", f"sequence {seq_id!r} {where}")
        return table

    def slots(self, seq_id: Hashable, start: int, stop: int) -> Slots:
        """The slots [stop - start] int64 of tokens start..stop-1."""
        table = self.table(seq_id)
        if not 0 <= start <= stop <= table.length:
            raise fault("K701", f"tokens {start} to {stop} are outside the {table.length} of {seq_id!r}")
        return token_slots(table.pages, self.block_size, start, stop)

    def block_tables(self, seq_ids: Iterable[Hashable], padding: int = 0, width: int = 0) -> torch.Tensor:
        """Tables as int32 [num_seqs, max(width, most pages)]; unused places hold `padding`."""
        return padded([self.table(seq_id).pages for seq_id in seq_ids], padding, width)

    def check_integrity(self) -> None:
        """Derive every count again from the structures; raises K708 with all that disagrees."""
        from kgen.runtime.integrity import check_manager

        check_manager(self)

    def _growth(self, seq_ids: Iterable[Hashable], count: int) -> list[Growth]:
        tables = [self.table(seq_id) for seq_id in seq_ids]
        return plan_growth(tables, self.pool.ref_counts, self.block_size, count)

    def _unshared(self, pages: Pages) -> int:
        """How many leading pages nobody else holds."""
        shared = self.pool.ref_counts[pages] != 1
        return int(np.argmax(shared)) if np.count_nonzero(shared) else len(pages)

    def _room(self, need: int) -> Room:
        return Room.OK if self.pool.num_available - need >= self.watermark_pages else Room.LATER

    def _require_new(self, seq_id: Hashable) -> None:
        if seq_id in self.tables or seq_id in self.swap:
            raise fault("K705", f"sequence {seq_id!r} exists already")

    def _give_up(self, table: Table) -> None:
        if len(table.own):
            self.pool.release(table.own)
        self._unlock(table)

    def _unlock(self, table: Table) -> None:
        if table.lock is not None and self.cache is not None:
            self.cache.unlock(table.lock)
