"""A prompt in chunks gives what the whole prompt gives, wherever it is cut."""

import pytest
import torch

from kgen import ops
from kgen.metadata import from_slots
from tests.dispatch.batch import close
from tests.dispatch.ragged import HEAD_DIM, Ragged

PROMPT = 257
SOME = (1, 2, 7, 16, 63, 64, 65, 100, 128, 256)


@pytest.fixture(scope="module")
def prompt():
    """A prompt of 257 tokens in shuffled slots, and its attention as one call gives it."""
    made = Ragged([0], [PROMPT])
    slots = torch.randperm(PROMPT, generator=torch.Generator().manual_seed(2)).tolist()
    pools = [torch.full((PROMPT + 1, 2, HEAD_DIM), torch.nan) for _ in "kv"]
    whole = made.run(return_lse=True)
    close(whole[0], made.expected()[0])
    return made, slots, pools, whole


def in_chunks(prompt, cuts):
    """Attention of one chunk after the other; a chunk's keys reach the pool right before it runs."""
    made, slots, (k_pool, v_pool), _ = prompt
    k_pool.fill_(torch.nan)
    v_pool.fill_(torch.nan)
    outs, lses = [], []
    ends = [*cuts, PROMPT]
    for begin, end in zip([0, *cuts], ends, strict=True):
        for pool, values in zip((k_pool, v_pool), made.keys[0], strict=True):
            pool[torch.tensor(slots[begin:end])] = values[begin:end]
        batch = from_slots([slots[:begin]], [slots[begin:end]], num_slots=PROMPT + 1)
        out, lse = ops.extend_attention(made.q[begin:end], k_pool, v_pool, batch, return_lse=True)
        outs.append(out)
        lses.append(lse)
    return torch.cat(outs), torch.cat(lses)


def same(got, whole):
    for one, other in zip(got, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    "size",
    [size if size in SOME else pytest.param(size, marks=pytest.mark.slow) for size in range(1, PROMPT)],
)
def test_every_chunk_size(prompt, size):
    same(in_chunks(prompt, list(range(size, PROMPT, size))), prompt[3])


def test_every_single_cut(prompt):
    for cut in range(1, PROMPT):
        same(in_chunks(prompt, [cut]), prompt[3])


def test_chunks_of_several_prompts_in_one_batch():
    """Three prompts at different places, in one call each step."""
    lengths = [100, 65, 17]
    made = Ragged([0, 0, 0], lengths)
    whole = made.run()
    starts = [0, 100, 165]
    k, v, batch = made.pool()
    found = torch.full_like(whole, torch.nan)
    done = [0, 0, 0]
    while done != lengths:
        steps = [min(29 + 7 * row, n - d) for row, (n, d) in enumerate(zip(lengths, done, strict=True))]
        rows = [slice(a + d, a + d + n) for a, d, n in zip(starts, done, steps, strict=True)]
        mine = [
            [int(batch.kv_indices[int(batch.kv_indptr[row]) + t // 16]) * 16 + t % 16 for t in range(d + n)]
            for row, (d, n) in enumerate(zip(done, steps, strict=True))
        ]
        step = from_slots(
            [slots[:d] for slots, d in zip(mine, done, strict=True)],
            [slots[d:] for slots, d in zip(mine, done, strict=True)],
        )
        out = ops.extend_attention(torch.cat([made.q[row] for row in rows]), k, v, step)
        for row, part in zip(rows, out.split(steps), strict=True):
            found[row] = part
        done = [d + n for d, n in zip(done, steps, strict=True)]
    torch.testing.assert_close(found, whole, rtol=2e-6, atol=2e-6)


def test_the_three_by_seven_mask():
    """Equal scores, and values that tell the keys apart: each row is the mean of the keys it sees."""
    made = Ragged([4], [3], heads=2, kv_heads=2)
    made.q.zero_()
    made.keys[0][1][:] = torch.eye(7, HEAD_DIM).unsqueeze(1)
    out, lse = made.run(return_lse=True)
    want = torch.tensor([[1 / 5] * 5 + [0, 0], [1 / 6] * 6 + [0], [1 / 7] * 7])
    torch.testing.assert_close(out[:, 0, :7], want, rtol=1e-6, atol=0)
    torch.testing.assert_close(lse[:, 0], torch.tensor([5.0, 6.0, 7.0]).log(), rtol=1e-6, atol=0)
    assert not out[:, :, 7:].any()
