"""A paged KV cache to measure on: larger than the last-level cache, read through several tables.

Every call takes the next table, so that no call finds in the cache what the one before it read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from kgen import reference
from kgen.layout import Layout, Sizes, shape
from kgen.reference import known_order
from kgen.testing.memory import DTYPES

LAST_LEVEL_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
GUESSED_CACHE_BYTES = 32 << 20
MOST_SETS = 64


@dataclass(frozen=True)
class Shape:
    """A decode call: `batch` rows of `context` keys each, on `device` as torch names it. `threads` are
    those of a CPU kernel, 0 on a GPU."""

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

    @property
    def pages(self) -> int:
        """Pages of one row."""
        return -(-self.context // self.block_size)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the keys and values one call needs."""
        rows = 2 * self.batch * self.context * self.kv_heads * self.head_dim
        return rows * DTYPES[self.dtype].itemsize

    def json(self) -> dict[str, int | str]:
        return asdict(self)


@dataclass(frozen=True)
class Pool:
    """Caches in one layout, and tables [batch, pages] over disjoint pages of them in random order."""

    shape: Shape
    layout: Layout
    k_cache: Tensor
    v_cache: Tensor
    tables: tuple[Tensor, ...]
    seq_lens: Tensor
    q: Tensor

    @property
    def page_bytes(self) -> int:
        """Bytes of one page of K, which is one of V."""
        return self.k_cache[0].numel() * self.k_cache.element_size()

    def rotation(self) -> Iterator[int]:
        """Numbers of tables, round and round."""
        return itertools.cycle(range(len(self.tables)))

    def span(self, number: int) -> Tensor:
        """A stretch of the K cache as long as the keys and values of a call; another each time."""
        count = self.shape.kv_bytes // self.k_cache.element_size()
        start = number % max(1, self.k_cache.numel() // count) * count
        return self.k_cache.view(-1)[start : start + count]

    def row(self, number: int, row: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one row of a table, each [context, kv_heads, head_dim]."""
        table = self.tables[number][row]
        return reference.gather(self.k_cache, self.v_cache, self.layout, table, self.shape.context)

    def contiguous(self, number: int) -> tuple[Tensor, Tensor]:
        """Keys and values behind one table as [batch, kv_heads, context, head_dim]."""
        rows = [self.row(number, row) for row in range(self.shape.batch)]
        k, v = (torch.stack(one).transpose(1, 2).contiguous() for one in zip(*rows, strict=True))
        return k, v


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


def draw_pool(wanted: Shape, layout: Layout, cache_bytes: int | None = None, seed: int = 0) -> Pool:
    """Normal values in as many tables as it takes for a page to leave the cache before its next turn."""
    device, dtype = wanted.device, DTYPES[wanted.dtype]
    held = last_level_cache(device) if cache_bytes is None else cache_bytes
    sets = min(MOST_SETS, 1 + max(1, -(-4 * held // max(wanted.kv_bytes, 1))))
    ids = torch.randperm(sets * wanted.batch * wanted.pages, generator=torch.Generator().manual_seed(seed))
    generator = torch.Generator(device).manual_seed(seed)
    sizes = Sizes(len(ids), wanted.kv_heads, wanted.block_size, wanted.head_dim, dtype.itemsize)
    caches = [
        torch.empty(shape(known_order(layout, which), sizes), dtype=dtype, device=device) for which in "kv"
    ]
    for cache in caches:
        for start in range(0, len(ids), 1024):  # in pieces: the draws are float32
            piece = cache[start : start + 1024]
            piece.copy_(torch.randn(piece.shape, generator=generator, device=device))
    queries = (wanted.batch, wanted.heads, wanted.head_dim)
    return Pool(
        shape=wanted,
        layout=layout,
        k_cache=caches[0],
        v_cache=caches[1],
        tables=tuple(ids.int().to(device).view(sets, wanted.batch, wanted.pages).unbind(0)),
        seq_lens=torch.full((wanted.batch,), wanted.context, dtype=torch.int32, device=device),
        q=torch.randn(queries, generator=generator, device=device).to(dtype),
    )
