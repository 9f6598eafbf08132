"""Rows of many more tiles than lie in shared memory at once: each place is filled and left many times."""

import math

import pytest
import torch

from kgen import ops
from kgen.dispatch.operators import OPERATORS

HEADS, KV_HEADS, NEW, PAGE = 4, 2, 70, 16


def expected(q, k, v):
    """Outputs and LSE in float64, of the last NEW tokens of a sequence."""
    keys, values = (x.double().repeat_interleave(HEADS // KV_HEADS, dim=1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.double(), keys) / math.sqrt(q.shape[-1])
    later = torch.ones(NEW, len(k), dtype=torch.bool).triu(len(k) - NEW + 1)
    scores.masked_fill_(later, -math.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values), scores.logsumexp(-1).T


@pytest.mark.parametrize("prefix", [1361, 1362])
@pytest.mark.parametrize("head_dim", [64, 128, 192, 256])
def test_every_tile_of_a_long_row_counts_once(head_dim, prefix):
    length = prefix + NEW
    pages = -(-length // PAGE)
    generator = torch.Generator().manual_seed(head_dim)
    q = torch.randn(NEW, HEADS, head_dim, generator=generator).bfloat16()
    k, v = torch.randn(2, pages * PAGE, KV_HEADS, head_dim, generator=generator).bfloat16()
    order = torch.randperm(pages, generator=generator)
    caches = torch.full((2, pages, PAGE, KV_HEADS, head_dim), math.nan).bfloat16()
    for cache, rows in zip(caches, (k, v), strict=True):
        rows[length:] = math.nan
        cache[order] = rows.view(pages, PAGE, KV_HEADS, head_dim)
    out, lse = torch.empty_like(q), torch.empty(NEW, HEADS)
    ints = (torch.tensor(x, dtype=torch.int32) for x in ([0, NEW], [0, pages], order.tolist(), [length]))
    dispatcher = ops.dispatcher()
    dispatcher.caller(OPERATORS["extend_attention"])(
        *(out, lse, q, *caches, None, None, *ints, None, None, 1 / math.sqrt(head_dim)),
        *(NEW, length, PAGE, "bshd", None, "sim:sm_90"),
    )
    want, want_lse = expected(q, k[:length], v[:length])
    torch.testing.assert_close(out.double(), want, atol=4e-3, rtol=1e-2)
    torch.testing.assert_close(lse.double(), want_lse, atol=1e-4, rtol=1e-5)
