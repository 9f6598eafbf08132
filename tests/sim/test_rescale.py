"""Sums are rescaled only where a score outgrows them: results stay right whatever way scores go."""

import math

import pytest
import torch

from tests.dispatch.batch import BLOCK, HEAD_DIM, Batch, close

LENGTH = 500
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 2e-2}


def climb(batch, scores):
    """Makes key t of every sequence and head give score `scores[t]`, in base 2, to queries of ones."""
    batch.q.fill_(1.0)
    keys = (scores * math.log(2) / HEAD_DIM).to(batch.k.dtype)
    for row, count in enumerate(batch.pages):
        padded = torch.full((count * BLOCK,), math.nan).to(keys.dtype)
        padded[: batch.seq_lens[row]] = keys[: batch.seq_lens[row]]
        mine = batch.block_table[row, :count].long()
        batch.k[mine] = padded.view(count, BLOCK, 1, 1).expand(-1, -1, batch.k.shape[2], HEAD_DIM)


@pytest.mark.parametrize(
    ("arch", "reuse"),
    [
        *((arch, reuse) for arch in ("sim:gfx936", "sim:gfx942", "sim:sm_90") for reuse in (4, 16)),
        ("sim:sm_90", 64),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("step", [0.03, 0.2, 3.0, -0.2, 40.0])
def test_scores_that_rise_or_fall_along_a_row(arch, dtype, reuse, step):
    batch = Batch([LENGTH, 70, 1], heads=2 * reuse, kv_heads=2, dtype=dtype)
    steps = torch.arange(LENGTH, dtype=torch.float64)
    climb(batch, steps.remainder(16).mul(step) if abs(step) > 10 else steps.mul(step))
    for partition in (0, 256, -1):
        out, lse = batch.run(
            arch=arch, partition_size=partition, reuse_kv_times=reuse, softmax_scale=1.0, return_lse=True
        )
        want, want_lse = batch.expected(1.0)
        close(out, want, TOLERANCE[dtype])
        close(lse, want_lse, 1e-4)


@pytest.mark.parametrize("reuse", [4, 16, 64])
def test_small_weights_of_f16_keep_their_digits(reuse):
    """Next to a key that is all there is to see, weights that f16 itself would round to a tenth or more."""
    batch = Batch([LENGTH, 70], heads=reuse, kv_heads=1, dtype=torch.float16)
    scores = torch.full((LENGTH,), math.log2(1.4) - 24, dtype=torch.float64)
    scores[0] = 0.0
    climb(batch, scores)
    batch.v[~batch.v.isnan()] = 3e4
    batch.v[batch.block_table[:, 0].long(), 0] = 0.0
    for partition in (0, 256, -1):
        out = batch.run(arch="sim:sm_90", partition_size=partition, reuse_kv_times=reuse, softmax_scale=1.0)
        close(out, batch.expected(1.0)[0], 1e-2)
