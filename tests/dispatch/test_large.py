"""Element offsets past 2^31: large strides, high ids, high slots, on read and on write.

The memory is reserved but hardly touched, so that it costs address space and a few pages.
"""

import pytest
import torch

from kgen import ops, reference
from tests.dispatch.batch import BLOCK, BSHD, HEAD_DIM, close

PAGE = BLOCK * HEAD_DIM
HIGH = 2**31 // PAGE  # the first page whose elements lie past 2^31


@pytest.fixture(scope="module")
def memory():
    """Two caches of more than 2^31 elements, as one run of f16 each."""
    try:
        return [torch.empty((HIGH + 4) * PAGE, dtype=torch.float16) for _ in "kv"]
    except RuntimeError:
        pytest.skip("not enough address space")


@pytest.fixture(autouse=True)
def _launcher(launcher, fresh):
    pass


def attend(caches, ids, options):
    """One row over pages `ids`, checked against the oracle on copies of them."""
    q = torch.randn(1, 2, HEAD_DIM).half()
    table = torch.tensor([ids], dtype=torch.int32)
    length = len(ids) * BLOCK - 3
    lengths = torch.tensor([length], dtype=torch.int32)
    for cache in caches:
        for page in ids:
            cache[page] = torch.randn(BLOCK, 1, HEAD_DIM).half()
    out = ops.paged_attention(q, *caches, table, lengths, max_seq_len=length, **options)
    small = [torch.stack([cache[page] for page in ids]) for cache in caches]
    order = torch.arange(len(ids), dtype=torch.int32)[None]
    expected, _ = reference.paged_attention(q, *small, order, lengths, HEAD_DIM**-0.5, BSHD)
    close(out, expected, 2e-3)


@pytest.mark.parametrize("options", [{"partition_size": 0}, {"partition_size": 64}])
def test_reading_high_pages(memory, options):
    caches = [one.view(-1, BLOCK, 1, HEAD_DIM) for one in memory]
    assert caches[0].shape[0] > 65_536
    attend(caches, [HIGH + 2, 3, HIGH, HIGH - 1, 65_536, HIGH + 3], options)


def test_reading_with_large_strides(memory):
    stride = (HIGH + 1) * PAGE
    caches = [one.as_strided((2, BLOCK, 1, HEAD_DIM), (stride, HEAD_DIM, HEAD_DIM, 1)) for one in memory]
    attend(caches, [1, 0], {})


def test_writing_high_slots(memory):
    caches = [one.view(-1, BLOCK, 1, HEAD_DIM) for one in memory]
    slots = [(HIGH + 3) * BLOCK + 15, HIGH * BLOCK, -1, 7]
    new = torch.randn(2, 4, 1, HEAD_DIM).half()
    ops.reshape_and_cache(*new, *caches, torch.tensor(slots))
    for cache, values in zip(caches, new, strict=True):
        for slot, value in zip(slots, values, strict=True):
            if slot >= 0:
                assert torch.equal(cache[slot // BLOCK, slot % BLOCK], value)


def test_copying_and_swapping_high_pages(memory):
    cache, other = (one.view(-1, BLOCK, 1, HEAD_DIM) for one in memory)
    cache[HIGH + 1] = torch.randn(BLOCK, 1, HEAD_DIM).half()
    ops.copy_blocks(cache, torch.tensor([[HIGH + 1, 2], [HIGH + 1, HIGH + 2]]))
    assert torch.equal(cache[2], cache[HIGH + 1])
    assert torch.equal(cache[HIGH + 2], cache[HIGH + 1])
    ops.swap_blocks(cache, other, torch.tensor([[2, HIGH + 3]]))
    assert torch.equal(other[HIGH + 3], cache[2])
