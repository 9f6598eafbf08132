"""A decode batch over scattered pages, and what it must come to."""

import torch

from kgen import ops, reference
from kgen.layout import Layout, TensorOrder

BSHD = Layout("bshd", *(TensorOrder(("block", "token", "head", "dim")),) * 2)
HEAD_DIM, BLOCK = 64, 16


class Batch:
    """A decode batch over scattered pages; memory no row uses is NaN, ids past a row are wild."""

    def __init__(
        self, lens, heads=4, kv_heads=2, dtype=torch.float32, seed=0, max_pages=None, head_dim=HEAD_DIM
    ):
        draw = torch.Generator().manual_seed(seed)
        self.seq_lens = torch.tensor(lens, dtype=torch.int32)
        self.pages = [-(-length // BLOCK) for length in lens]
        used = sum(self.pages)
        self.q = torch.randn(len(lens), heads, head_dim, generator=draw).to(dtype)
        self.k, self.v = (
            torch.full((used + 3, BLOCK, kv_heads, head_dim), torch.nan).to(dtype) for _ in "kv"
        )
        ids = torch.randperm(used, generator=draw) + 1
        width = max_pages or max([1, *self.pages]) + 1
        self.block_table = torch.full((len(lens), width), 2**30, dtype=torch.int32)
        place = 0
        for row, count in enumerate(self.pages):
            mine = ids[place : place + count]
            self.block_table[row, :count] = mine
            place += count
            for cache in (self.k, self.v):
                values = torch.randn(count * BLOCK, kv_heads, head_dim, generator=draw).to(dtype)
                values[lens[row] :] = torch.nan
                cache[mine] = values.view(count, BLOCK, kv_heads, head_dim)
        self.max_seq_len = max([0, *lens])

    def tensors(self):
        return self.q, self.k, self.v, self.block_table, self.seq_lens

    def run(self, **options):
        return ops.paged_attention(*self.tensors(), **{"max_seq_len": self.max_seq_len, **options})

    def expected(self, scale=None, **masks):
        scale = self.q.shape[-1] ** -0.5 if scale is None else scale
        return reference.paged_attention(*self.tensors(), scale, BSHD, **masks)


def close(got, expected, tolerance=3e-6):
    torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=False)
