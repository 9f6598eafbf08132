"""Merging, cache writes and page copies, and their contracts, through both bindings."""

import math

import pytest
import torch

from kgen import ops, reference
from kgen.diagnostics import KgenError
from tests.dispatch.batch import BLOCK, BSHD, HEAD_DIM, Batch, close


@pytest.fixture(autouse=True)
def _launcher(launcher, fresh):
    pass


def test_merging_parts_of_a_row_gives_the_whole():
    lens = [77, 40, 33]
    batch = Batch(lens)
    whole, whole_lse = batch.run(return_lse=True)
    parts = []
    for start, stop in ((0, 1), (1, 2), (2, 5)):
        table = batch.block_table[:, start:stop].contiguous()
        lengths = (batch.seq_lens - start * BLOCK).clamp(0, (stop - start) * BLOCK)
        parts.append(
            ops.paged_attention(batch.q, batch.k, batch.v, table, lengths, max_seq_len=48, return_lse=True)
        )
    outs, lses = zip(*parts, strict=True)
    out, lse = ops.merge_states(torch.stack(outs, dim=1), torch.stack(lses, dim=1))
    close(out, whole.double())
    close(lse, whole_lse.double())
    one, one_lse = ops.merge_state(*parts[0], *parts[1])
    out, lse = ops.merge_state(one, one_lse, *parts[2])
    close(out, whole.double())
    close(lse, whole_lse.double())


def test_merging_empty_states():
    a, b = torch.randn(3, 2, HEAD_DIM), torch.full((3, 2, HEAD_DIM), torch.nan)
    a_lse, empty = torch.randn(3, 2), torch.full((3, 2), -math.inf)
    for states in ((a, a_lse, b, empty), (b, empty, a, a_lse)):
        out, lse = ops.merge_state(*states)
        close(out, a.double())
        close(lse, a_lse.double())
    out, lse = ops.merge_state(b, empty, b, empty)
    assert out.eq(0).all()
    assert lse.eq(-math.inf).all()
    with pytest.raises(KgenError, match="there must be at least one state to merge"):
        ops.merge_states(torch.zeros(3, 0, 2, HEAD_DIM), torch.zeros(3, 0, 2))


def cache_pair(blocks=6, heads=2):
    return [torch.full((blocks, BLOCK, heads, HEAD_DIM), 9.0) for _ in "kv"]


def test_reshape_and_cache():
    k_cache, v_cache = cache_pair()
    key, value = torch.randn(5, 2, HEAD_DIM), torch.randn(5, 2, HEAD_DIM)
    slots = torch.tensor([95, -1, 0, 17, -1])
    expected = reference.reshape_and_cache(key, value, k_cache, v_cache, slots, BSHD)
    assert ops.reshape_and_cache(key, value, k_cache, v_cache, slots) is None
    assert torch.equal(k_cache, expected[0])
    assert torch.equal(v_cache, expected[1])
    ops.reshape_and_cache(key[:0], value[:0], k_cache, v_cache, slots[:0])
    assert torch.equal(k_cache, expected[0])


@pytest.mark.parametrize("slot", [-2, 96, 2**40])
def test_a_slot_outside_the_pool_raises_before_any_write(slot):
    k_cache, v_cache = cache_pair()
    new = torch.randn(3, 2, HEAD_DIM)
    with pytest.raises(KgenError) as caught:
        ops.reshape_and_cache(new, new, k_cache, v_cache, torch.tensor([0, 1, slot]))
    assert f"token 2: slot {slot} is outside the pool of 96 slots" in str(caught.value)
    assert k_cache.eq(9).all()
    assert v_cache.eq(9).all()


def test_copy_blocks():
    caches = [torch.randn(6, BLOCK, 2, HEAD_DIM), torch.randn(6, 2, BLOCK, HEAD_DIM).bfloat16()]
    pairs = torch.tensor([[0, 3], [0, 5], [4, 1]])
    expected = [reference.copy_blocks(cache, pairs) for cache in caches]
    ops.copy_blocks(caches, pairs)
    assert all(map(torch.equal, caches, expected))
    ops.copy_blocks(caches[0], pairs[:0])
    assert torch.equal(caches[0], expected[0])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 3], [1, 3]], "block_mapping rows 0 and 1 both touch block 3"),
        ([[0, 3], [3, 4]], "both touch block 3"),
        ([[0, 3], [1, 6]], "block_mapping row 1: destination block 6 is outside the pool of 6 blocks"),
        ([[0, 3], [-1, 4]], "block_mapping row 1: source block -1 is outside the pool of 6 blocks"),
    ],
)
def test_a_copy_with_no_defined_result_raises_before_any_write(pairs, message):
    caches = [torch.randn(6, BLOCK, 2, HEAD_DIM) for _ in "kv"]
    before = [cache.clone() for cache in caches]
    with pytest.raises(KgenError) as caught:
        ops.copy_blocks(caches, torch.tensor(pairs))
    assert message in str(caught.value)
    assert all(map(torch.equal, caches, before))


def test_caches_of_different_pools_are_refused():
    caches = [torch.randn(blocks, BLOCK, 2, HEAD_DIM) for blocks in (6, 5)]
    with pytest.raises(KgenError, match="caches differ in their number of pages"):
        ops.copy_blocks(caches, torch.tensor([[0, 1]]))


def test_swap_blocks():
    device, host = torch.randn(6, BLOCK, 2, HEAD_DIM), torch.randn(4, BLOCK, 2, HEAD_DIM)
    pairs = torch.tensor([[5, 0], [2, 3]])
    expected = reference.swap_blocks(device, host, pairs)
    ops.swap_blocks(device, host, pairs)
    assert torch.equal(host, expected)
    expected = reference.swap_blocks(host, device, pairs.flip(1))
    ops.swap_blocks([host], [device], pairs.flip(1))
    assert torch.equal(device, expected)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[6, 0]], "block_mapping row 0: source block 6 is outside the pool of 6 blocks"),
        ([[0, 4]], "block_mapping row 0: destination block 4 is outside the pool of 4 blocks"),
        ([[0, 1], [2, 1]], "both touch block 1"),
    ],
)
def test_a_swap_that_cannot_be_raises_before_any_write(pairs, message):
    source, destination = torch.randn(6, BLOCK, 2, HEAD_DIM), torch.full((4, BLOCK, 2, HEAD_DIM), 9.0)
    with pytest.raises(KgenError) as caught:
        ops.swap_blocks(source, destination, torch.tensor(pairs))
    assert message in str(caught.value)
    assert destination.eq(9).all()


def test_swaps_that_make_no_sense():
    cache = torch.randn(6, BLOCK, 2, HEAD_DIM)
    with pytest.raises(KgenError, match="use copy_blocks"):
        ops.swap_blocks(cache, cache, torch.tensor([[0, 1]]))
    with pytest.raises(KgenError, match="1 sources for 2 destinations"):
        ops.swap_blocks(cache, [cache, cache], torch.tensor([[0, 1]]))
    with pytest.raises(KgenError, match="page_bytes"):
        ops.swap_blocks(cache, cache[:, :8].contiguous(), torch.tensor([[0, 1]]))
