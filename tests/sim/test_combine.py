"""The kernel that combines the parts of a row: one part, a few, and many; a block a row, and a team a row."""

import pytest
import torch

from kgen import api, ops
from kgen.reference import paged_attention

LAYOUT = api.check().layout("bshd")
PART, BLOCK, HEADS, KV_HEADS = 64, 64, 2, 1
FEW = [0, PART, 2 * PART - 3, 8 * PART + 1, 300 * PART]
MANY = [0, 1, PART, 2 * PART - 3, 9 * PART + 1] * 250  # with 2 heads more rows than 8 for each unit of a chip


@pytest.mark.parametrize("lengths", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("dim", [40, 128])
@pytest.mark.parametrize("arch", ["sim:gfx942", "sim:sm_90"])
def test_every_part_counts_once(arch, dim, lengths):
    generator = torch.Generator().manual_seed(dim)
    pages = -(-max(lengths) // BLOCK)
    k, v = torch.randn(2, pages, BLOCK, KV_HEADS, dim, generator=generator).half()
    table = torch.randperm(pages, generator=generator).int().repeat(len(lengths), 1)
    seq_lens = torch.tensor(lengths, dtype=torch.int32)
    q = torch.randn(len(lengths), HEADS, dim, generator=generator).half()
    # Scores rise along the row, so that the last part weighs most, and each part has another largest score.
    rising = torch.linspace(0.1, 3, pages * BLOCK).view(pages, BLOCK, 1, 1)
    k[table[0].long()] *= rising.half()
    out, lse = ops.paged_attention(
        q, k, v, table, seq_lens, max_seq_len=max(lengths), partition_size=PART, arch=arch, return_lse=True
    )
    expected, expected_lse = paged_attention(q, k, v, table, seq_lens, dim**-0.5, LAYOUT)
    torch.testing.assert_close(out.double(), expected, rtol=4e-3, atol=2e-3)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-4, atol=1e-4)
