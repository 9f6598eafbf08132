"""Written tensors share no memory with others: by ranges of bytes, and by strides where they meet."""

import random
import re

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from kgen.dispatch.arguments import view
from kgen.dispatch.overlap import disjoint, region
from tests.dispatch.test_launch import arguments, words_of
from tests.dispatch.toy import OPERATOR, WORDS, toy_dispatcher


def apart(first, second):
    return disjoint(region(view(first)), region(view(second)), second.data_ptr() - first.data_ptr())


def both(first, second):
    """Whether they are disjoint, asked from either side."""
    answers = {apart(first, second), apart(second, first)}
    assert len(answers) == 1
    return answers.pop()


def test_interleaved_tensors_are_disjoint():
    pair = torch.zeros(5, 2, 16, 2, 8)
    assert both(pair[:, 0], pair[:, 1])
    assert both(pair[:3, 0], pair[1:, 1])
    assert not both(pair[:, 0], pair[:, 0])
    assert not both(pair[:3, 0], pair[2:, 0])
    assert both(pair[:3, 0], pair[3:, 0])
    assert not both(pair[:, 0], pair[2, :])


def test_slices_of_a_fused_projection():
    fused = torch.zeros(3, 12, 8)
    q, k, v = fused.split([8, 2, 2], dim=1)
    assert both(q, k) and both(k, v) and both(q, v)
    assert not both(q, fused[:, 7:9])
    assert not both(q, fused)
    halves = fused.view(3, 12, 2, 4)
    assert both(halves[:, :, 0], halves[:, :, 1])
    assert both(halves[:, :6, 0], halves[:, 3:, 1])


def test_rows_of_one_sequence_and_of_many():
    fused = torch.zeros(3, 12, 8)
    assert both(fused[:1, :8], fused[:, 8:]) and not both(fused[1:2, :9], fused[:, 8:])


def test_what_is_told_disjoint_is():
    """Against the very elements, on slices of one tensor drawn at random."""
    draw = random.Random(3)
    base = torch.arange(4 * 6 * 5).view(4, 6, 5)
    told = shared = 0
    for _ in range(3000):
        first, second = (sliced(draw, base) for _ in range(2))
        common = set(first.flatten().tolist()) & set(second.flatten().tolist())
        if apart(first, second):
            told += 1
            assert not common
        shared += bool(common)
    assert told > 300 and shared > 300


def sliced(draw, base):
    cuts = []
    for extent in base.shape:
        start = draw.randrange(extent)
        cuts.append(slice(start, draw.randint(start + 1, extent), draw.choice([1, 1, 2])))
    return base[tuple(cuts)]


@pytest.fixture
def call(compiler):
    return toy_dispatcher(compiler, {}, {"partition_size": 512}).caller(OPERATOR)


def test_a_call_names_both(call):
    values = arguments()
    memory = torch.zeros(3 * 8 * 8 + 3 * 8)
    x, lse = memory[: 3 * 8 * 8].view(3, 8, 8), memory[3 * 8 * 8 :].view(3, 8)
    words_of(call, {**values, "x": x, "lse": lse})
    near = memory[3 * 8 * 8 - 1 : -1].view(3, 8)
    for _ in range(2):  # each time, since a kept plan takes new pointers
        with pytest.raises(KgenError, match="lse is written and shares memory with x"):
            call(*{**values, "x": x, "lse": near}.values())
    words_of(call, {**values, "x": x, "lse": lse})


def test_the_first_tensor_written_may_lie_behind(call):
    words = torch.zeros(len(WORDS) + 24, dtype=torch.int64)
    lse = words.view(torch.float32)[: 3 * 8].view(3, 8)
    with pytest.raises(KgenError, match="echo is written and shares memory with lse"):
        call(*arguments(echo=words[8 : 8 + len(WORDS)], lse=lse).values())
    words_of(call, arguments(echo=words[24:], lse=lse))


def test_outputs_in_place_of_inputs_are_refused():
    q, cache = torch.randn(2, 4, 64), torch.randn(3, 16, 2, 64)
    table, lengths = torch.zeros(2, 1, dtype=torch.int32), torch.ones(2, dtype=torch.int32)
    before = q.clone()
    with pytest.raises(KgenError, match="out is written and shares memory with q"):
        ops.paged_attention(q, cache, cache, table, lengths, max_seq_len=1, out=q)
    assert torch.equal(q, before)


def test_new_keys_may_come_out_of_a_projection_and_go_into_an_interleaved_cache():
    pair, fused = torch.zeros(3, 2, 16, 2, 64), torch.randn(2, 8, 64)
    slots = torch.tensor([5, 17])
    ops.reshape_and_cache(fused[:, 4:6], fused[:, 6:], pair[:, 0], pair[:, 1], slots)
    assert torch.equal(pair[0, 0, 5], fused[0, 4:6]) and torch.equal(pair[1, 1, 1], fused[1, 6:])
    with pytest.raises(KgenError, match=re.escape("k_cache is written and shares memory with v_cache")):
        ops.reshape_and_cache(fused[:, 4:6], fused[:, 6:], pair[:, 0], pair[:, 0], slots)
