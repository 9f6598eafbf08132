"""A paged KV cache to measure on: larger than the last-level cache, read through several tables.

Every call takes the next table, so that no call finds in the cache what the one before it read: between two
reads of a page ROTATION times the cache is read, of which a cache that replaces at random keeps 0.25%.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from kgen import reference
from kgen.bench import kv
from kgen.layout import Layout, Sizes, shape
from kgen.reference import known_order
from kgen.testing.memory import DTYPES

LAST_LEVEL_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
GUESSED_CACHE_BYTES = 32 << 20
ROTATION = 6
"""Bytes read between two reads of a page, in sizes of the last-level cache."""
MOST_SETS = 512
UNUSED = -1
"""What a table holds behind the pages of a row."""


@dataclass(frozen=True)
class Shape:
    """A decode call: `batch` rows of `context` keys each, or where `ragged` of 1 to `context` keys, drawn
    uniformly with `seed`; on `device` as torch names it. `threads` are those of a CPU kernel, 0 on a GPU.
    `kv_dtype`: of keys and values, where it is not that of the queries."""

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    block_size: int
    layout: str
    dtype: str
    threads: int
    device: str = "cpu"
    ragged: bool = False
    seed: int = 0
    kv_dtype: str = ""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Keys of each row."""
        return row_lengths(self.batch, self.context, self.seed if self.ragged else None)

    @property
    def longest(self) -> int:
        """Keys of the longest row."""
        return max(self.lengths)

    @property
    def pages(self) -> int:
        """Pages of the longest row."""
        return -(-self.longest // self.block_size)

    @property
    def row_pages(self) -> tuple[int, ...]:
        """Pages of each row."""
        return tuple(-(-length // self.block_size) for length in self.lengths)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the keys and values one call needs."""
        rows = 2 * sum(self.lengths) * self.kv_heads * self.head_dim
        return rows * kv.element_size(self.dtype, self.kv_dtype)

    @property
    def dtypes(self) -> str:
        """Those of queries and caches, as a report names them."""
        return kv.label(self.dtype, self.kv_dtype)

    def json(self) -> dict[str, int | str]:
        return asdict(self)


@dataclass(frozen=True)
class Pool:
    """Caches in one layout, and tables [batch, pages] over disjoint pages of them in random order; UNUSED
    behind a row's last page. `cache_bytes`: what the tables outgrow. `scale`: of both caches, one element,
    where they hold 8-bit floats."""

    shape: Shape
    layout: Layout
    k_cache: Tensor
    v_cache: Tensor
    tables: tuple[Tensor, ...]
    seq_lens: Tensor
    q: Tensor
    cache_bytes: int
    scale: Tensor | None = None

    @property
    def page_bytes(self) -> int:
        """Bytes of one page of K, which is one of V."""
        return self.k_cache[0].numel() * self.k_cache.element_size()

    def rotation(self) -> Iterator[int]:
        """Numbers of tables, round and round."""
        return itertools.cycle(range(len(self.tables)))

    @property
    def rotation_bytes(self) -> int:
        """Bytes of other tables that calls read between two reads of a page."""
        return (len(self.tables) - 1) * self.shape.kv_bytes

    def in_order(self) -> Pool:
        """The same pool with tables that are nothing but used pages, row by row."""
        used = [torch.arange(count) for count in self.shape.row_pages]
        rows = torch.repeat_interleave(torch.arange(self.shape.batch), torch.tensor(self.shape.row_pages))
        places = (rows * self.shape.pages + torch.cat(used)).to(self.q.device)
        return replace(self, tables=tuple(table.flatten()[places].contiguous() for table in self.tables))

    def span(self, number: int) -> Tensor:
        """A stretch of a cache as long as the keys and values of a call, or all of it; another each time,
        by turns of K and V, until all was read."""
        cache = (self.k_cache, self.v_cache)[number % 2].view(-1)
        count = min(self.shape.kv_bytes // cache.element_size(), cache.numel())
        start = number // 2 % (cache.numel() // count) * count
        return cache[start : start + count]

    def row(self, number: int, row: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one row of a table, each [length, kv_heads, head_dim]: what they stand for."""
        table = self.tables[number][row]
        k, v = reference.gather(self.k_cache, self.v_cache, self.layout, table, self.shape.lengths[row])
        return kv.meant(k, self.scale), kv.meant(v, self.scale)

    def contiguous(self, number: int) -> tuple[Tensor, Tensor]:
        """Keys and values behind one table as [batch, kv_heads, longest, head_dim]; 0 behind a row's end."""
        sizes = (self.shape.batch, self.shape.kv_heads, self.shape.longest, self.shape.head_dim)
        k, v = (torch.zeros(sizes, dtype=self.q.dtype, device=self.q.device) for _ in range(2))
        for row, length in enumerate(self.shape.lengths):
            for whole, part in zip((k, v), self.row(number, row), strict=True):
                whole[row, :, :length] = part.transpose(0, 1)
        return k, v


@functools.lru_cache(maxsize=64)
def row_lengths(batch: int, context: int, seed: int | None) -> tuple[int, ...]:
    """Keys of each row: `context`, or with a seed 1 to `context`."""
    if seed is None:
        return (context,) * batch
    drawn = torch.randint(1, context + 1, (batch,), generator=torch.Generator().manual_seed(seed))
    return tuple(int(length) for length in drawn)


def last_level_cache(device: str = "cpu") -> int:
    """Bytes of the last-level cache of a device."""
    if device != "cpu":
        size: int = torch.cuda.get_device_properties(device).L2_cache_size
        return size
    try:
        text = LAST_LEVEL_CACHE.read_text(encoding="ascii").strip()
        return int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0)
    except (OSError, ValueError):
        return GUESSED_CACHE_BYTES


def bytes_of(shape: Shape, *, gathered: bool) -> int:
    """Bytes that measuring a shape takes: its tables' pages, where `gathered` those of all rows in one piece
    too (of the queries' dtype), and a row in float64 with its absolute values."""
    tables = tables_of(shape, last_level_cache(shape.device))
    row = 2 * shape.longest * shape.kv_heads * shape.head_dim * DTYPES[shape.dtype].itemsize
    pages = sum(shape.row_pages) * shape.block_size
    held = tables * (shape.kv_bytes * pages // sum(shape.lengths) + (shape.batch * row if gathered else 0))
    return held + 2 * row + 8 * 4 * shape.longest * shape.head_dim


def tables_of(shape: Shape, cache_bytes: int) -> int:
    """How many tables it takes for a page to leave a cache of that size before its next turn."""
    return min(MOST_SETS, 1 + max(1, -(-ROTATION * cache_bytes // max(shape.kv_bytes, 1))))


def draw_pool(wanted: Shape, layout: Layout, cache_bytes: int | None = None, seed: int = 0) -> Pool:
    """Normal values in as many tables as it takes for a page to leave the cache before its next turn."""
    device, dtype = wanted.device, kv.stored(wanted.kv_dtype or wanted.dtype, wanted.device)
    scale = kv.scale_for(dtype, device)
    held = last_level_cache(device) if cache_bytes is None else cache_bytes
    sets, count = tables_of(wanted, held), sum(wanted.row_pages)
    ids = torch.randperm(sets * count, generator=torch.Generator().manual_seed(seed)).int()
    generator = torch.Generator(device).manual_seed(seed)
    sizes = Sizes(len(ids), wanted.kv_heads, wanted.block_size, wanted.head_dim, dtype.itemsize)
    caches = [_draw_cache(shape(known_order(layout, w), sizes), dtype, scale, generator) for w in "kv"]
    queries = (wanted.batch, wanted.heads, wanted.head_dim)
    return Pool(
        shape=wanted,
        layout=layout,
        k_cache=caches[0],
        v_cache=caches[1],
        tables=tuple(_table(wanted, part).to(device) for part in torch.split(ids, count)),
        seq_lens=torch.tensor(wanted.lengths, dtype=torch.int32, device=device),
        q=torch.randn(queries, generator=generator, device=device).to(DTYPES[wanted.dtype]),
        cache_bytes=held,
        scale=scale,
    )


def _draw_cache(
    sizes: Sequence[int], dtype: torch.dtype, scale: Tensor | None, generator: torch.Generator
) -> Tensor:
    cache = torch.empty(tuple(sizes), dtype=dtype, device=generator.device)
    for start in range(0, len(cache), 1024):  # in pieces: the draws are float32
        piece = cache[start : start + 1024]
        values = torch.randn(piece.shape, generator=generator, device=generator.device)
        piece.copy_(kv.drawn(values, scale, dtype))
    return cache


def _table(shape: Shape, ids: Tensor) -> Tensor:
    table = torch.full((shape.batch, shape.pages), UNUSED, dtype=torch.int32)
    for row, pages in zip(table, torch.split(ids, list(shape.row_pages)), strict=True):
        row[: len(pages)] = pages
    return table
