"""A ragged batch over scattered token slots or pages, in both conventions, and what it must come to."""

from dataclasses import dataclass, field

import torch

from kgen import ops, reference
from kgen.layout import Layout, TensorOrder
from kgen.metadata import POOL, SEPARATE, from_arrays

BSHD = Layout("bshd", *(TensorOrder(("block", "token", "head", "dim")),) * 2)
HEAD_DIM = 64


@dataclass
class Ragged:
    """Sequences of `new` tokens behind `prefixes`; slots no sequence uses are NaN."""

    prefixes: list[int]
    new: list[int]
    heads: int = 4
    kv_heads: int = 2
    block_size: int = 16
    dtype: torch.dtype = torch.float32
    index_dtype: torch.dtype = torch.int32
    q: torch.Tensor = field(init=False)
    keys: list[tuple[torch.Tensor, torch.Tensor]] = field(init=False)

    def __post_init__(self):
        draw = torch.Generator().manual_seed(5)
        self.lengths = [max(a, -b) + b for a, b in zip(self.prefixes, self.new, strict=True)]
        self.q = torch.randn(sum(self.new), self.heads, HEAD_DIM, generator=draw).to(self.dtype)
        shape = (self.kv_heads, HEAD_DIM)
        self.keys = [
            tuple(torch.randn(n, *shape, generator=draw).to(self.dtype) for _ in "kv") for n in self.lengths
        ]
        self.max_seq_len = max([0, *self.lengths])

    def pool(self, convention=POOL):
        """(k_cache, v_cache, batch) with every sequence's keys, or those of its prefix, in pages."""
        separate = convention == SEPARATE
        held = [n - m if separate else n for n, m in zip(self.lengths, self.new, strict=True)]
        counts = [-(-n // self.block_size) for n in held]
        ids = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(9)) + 1
        shape = (sum(counts) + 2, self.block_size, self.kv_heads, HEAD_DIM)
        caches = [torch.full(shape, torch.nan, dtype=self.dtype) for _ in "kv"]
        start = 0
        for pair, n, count in zip(self.keys, held, counts, strict=True):
            for cache, values in zip(caches, pair, strict=True):
                flat = torch.full((count * self.block_size, *shape[2:]), torch.nan, dtype=self.dtype)
                flat[:n] = values[:n]
                cache[ids[start : start + count]] = flat.view(count, *shape[1:])
            start += count
        batch = from_arrays(
            _running(self.new).to(self.index_dtype),
            _running(counts).to(self.index_dtype),
            ids.to(self.index_dtype),
            seq_lens=torch.tensor(self.lengths, dtype=self.index_dtype),
            convention=convention,
            block_size=self.block_size,
            num_blocks=shape[0],
        )
        return *caches, batch

    def new_keys(self):
        """k_new, v_new for the separate convention."""
        pairs = zip(self.keys, self.new, strict=True)
        rows = [[x[len(x) - m :] for x in pair] for pair, m in pairs]
        return dict(zip(("k_new", "v_new"), map(torch.cat, zip(*rows, strict=True)), strict=True))

    def run(self, convention=POOL, **options):
        new = self.new_keys() if convention == SEPARATE else {}
        return ops.extend_attention(self.q, *self.pool(convention), **new, **options)

    def expected(self, scale=HEAD_DIM**-0.5, **masks):
        found, row = [], 0
        for seq, ((k, v), m) in enumerate(zip(self.keys, self.new, strict=True)):
            mine = self.q[row : row + m]
            found.append(reference.attention(mine, k, v, scale, batch=seq, first_row=row, **masks))
            row += m
        return tuple(map(torch.cat, zip(*found, strict=True)))


def _running(counts):
    return torch.tensor([0, *counts]).cumsum(0)
