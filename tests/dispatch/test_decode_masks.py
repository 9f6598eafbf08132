"""Decode under masks and scores: the query stands at the last key, and hidden pages are never looked at."""

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from tests.dispatch.batch import BLOCK, Batch, close

LENS = [5, 0, 77, 1, 300, 16, 47]

MASKS = {
    "none": ({}, None, None),
    "sliding": ({"window": 20}, lambda at: at.q - at.kv < 20, None),
    "window": ({"left": 9, "right": 3}, lambda at: at.q - at.kv <= 9, None),
    "sinks": ({"window": 20, "sinks": 3}, lambda at: (at.q - at.kv < 20) | (at.kv < 3), None),
    "chunked": ({"chunk": 32}, lambda at: at.kv // 32 == at.q // 32, None),
    "softcap": ({"cap": 1.5}, None, lambda at: 1.5 * torch.tanh(at.s / 1.5)),
    "sliding_softcap": (
        {"window": 20, "cap": 1.5},
        lambda at: at.q - at.kv < 20,
        lambda at: 1.5 * torch.tanh(at.s / 1.5),
    ),
}


@pytest.mark.parametrize("partition_size", [0, 256])
@pytest.mark.parametrize("variant", MASKS)
def test_masks_of_numbers(variant, partition_size):
    args, mask, score = MASKS[variant]
    batch = Batch(LENS)
    out, lse = batch.run(
        variant=variant, variant_args=args, softmax_scale=0.3, partition_size=partition_size, return_lse=True
    )
    want, want_lse = batch.expected(0.3, mask=mask, score=score)
    close(out, want, 1e-5)
    close(lse, want_lse, 1e-5)


def test_slopes_by_head():
    batch, slope = Batch(LENS), torch.tensor([0.5, 0.25, 0.0, -0.1])
    out = batch.run(variant="alibi", variant_args={"slope": slope}, softmax_scale=-0.3)
    score = slope.double().view(-1, 1, 1)
    close(out, batch.expected(-0.3, score=lambda at: at.s + score * (at.kv - at.q))[0], 1e-5)


def test_documents_by_sequence_and_key():
    batch = Batch(LENS)
    draw = torch.Generator().manual_seed(1)
    own = torch.randint(0, 2, (len(LENS),), generator=draw, dtype=torch.int32)
    keys = torch.randint(0, 2, (len(LENS), 300), generator=draw, dtype=torch.int32)
    args = {"query_document": own, "key_document": keys}
    out, lse = batch.run(variant="document", variant_args=args, return_lse=True)

    def mask(at):
        return (keys[at.batch, : at.kv.shape[-1]] == own[at.batch]).expand_as(at.s)

    want, want_lse = batch.expected(mask=mask)
    close(out, want)
    assert torch.equal(lse == -torch.inf, want_lse == -torch.inf)


@pytest.mark.parametrize("partition_size", [0, 256])
def test_pages_before_a_window_are_not_looked_at(partition_size):
    """A runtime that frees what a window has left behind may leave anything in the table there."""
    batch = Batch([300, 290, 40])
    options = {"variant": "sliding", "variant_args": {"window": 33}, "partition_size": partition_size}
    out = batch.run(**options)
    for row, length in enumerate([300, 290, 40]):
        batch.block_table[row, : (length - 33) // BLOCK] = -1
    assert torch.equal(batch.run(**options), out)
    batch.block_table[0, (300 - 33) // BLOCK] = -1
    with pytest.raises(KgenError, match="block id -1"):
        batch.run(**options)


def test_a_query_that_sees_no_key_is_empty():
    batch = Batch([40, 7])
    args = {
        "query_document": torch.tensor([9, 1], dtype=torch.int32),
        "key_document": torch.ones(2, 40, dtype=torch.int32),
    }
    out, lse = batch.run(variant="document", variant_args=args, return_lse=True)
    assert not out[0].any() and torch.equal(lse[0], torch.full((4,), -torch.inf))
    close(out[1:], batch.expected()[0][1:])


def test_a_traced_call_takes_a_variant():
    torch._dynamo.reset()
    batch = Batch([40, 7])

    def step(q):
        return ops.paged_attention(
            q, *batch.tensors()[1:], max_seq_len=40, variant="sliding", variant_args={"window": 5}
        )

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(batch.q), step(batch.q))
