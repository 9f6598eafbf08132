"""extend_attention and prefix_decode as they are called: conventions, pools, dtypes of indices, refusals."""

from dataclasses import replace

import pytest
import torch

from kgen import ops, reference
from kgen.diagnostics import KgenError
from kgen.metadata import POOL, SEPARATE, from_arrays, from_block_table, from_slots
from tests.dispatch.batch import close
from tests.dispatch.ragged import HEAD_DIM, Ragged

PREFIXES = [[108, 109, 110, 111], [], [80, 81, 82, 83, 84]]
NEW = [[42, 43], [201, 202, 203], [99]]


def mixed(**changes):
    return Ragged([20, 0, 5, 0, -3], [3, 40, 0, 1, 8], **changes)


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("convention", [POOL, SEPARATE])
def test_both_conventions(convention, block_size, index_dtype):
    made = Ragged([20, 0, 5, 0], [3, 40, 0, 1], block_size=block_size, index_dtype=index_dtype)
    for got, expected in zip(made.run(convention, return_lse=True), made.expected(), strict=True):
        close(got, expected)


def test_three_requests_give_equal_outputs_in_both_conventions():
    """The same slots hold the same keys; in the separate convention the new ones are poison there."""
    torch.manual_seed(0)
    q = torch.randn(6, 4, HEAD_DIM)
    pools = [torch.full((256, 2, HEAD_DIM), torch.nan) for _ in "kv"]
    new = [torch.randn(6, 2, HEAD_DIM) for _ in "kv"]
    old = torch.tensor([slot for row in PREFIXES for slot in row])
    for pool in pools:
        pool[old] = torch.randn(9, 2, HEAD_DIM)
    separate = ops.extend_attention(
        q, *pools, from_slots(PREFIXES, NEW, convention=SEPARATE), k_new=new[0], v_new=new[1]
    )
    for pool, values in zip(pools, new, strict=True):
        pool[torch.tensor([slot for row in NEW for slot in row])] = values
    pooled = ops.extend_attention(q, *pools, from_slots(PREFIXES, NEW))
    assert torch.equal(separate, pooled)
    k, v = (torch.cat([pool[PREFIXES[2]], pool[NEW[2]]]) for pool in pools)
    close(pooled[5:], reference.attention(q[5:], k, v, HEAD_DIM**-0.5)[0])


def test_slots_lie_in_pages_of_any_size():
    """A pool of pages, addressed token by token, is not copied."""
    made = mixed()
    k, v, batch = made.pool()
    rows = [list(range(*ends)) for ends in zip(batch.kv_indptr[:-1], batch.kv_indptr[1:], strict=True)]
    slots = [
        [int(batch.kv_indices[row[t // 16]]) * 16 + t % 16 for t in range(length)]
        for row, length in zip(rows, made.lengths, strict=True)
    ]
    indptr = torch.tensor([0, *made.lengths]).cumsum(0).int()
    by_slot = from_arrays(
        batch.qo_indptr, indptr, torch.tensor([slot for row in slots for slot in row], dtype=torch.int32)
    )
    out = ops.extend_attention(made.q, k, v, by_slot)
    assert torch.equal(out, ops.extend_attention(made.q, k, v, batch))
    flat = (cache.view(-1, 2, HEAD_DIM) for cache in (k, v))
    assert torch.equal(out, ops.extend_attention(made.q, *flat, by_slot))


def test_a_block_table():
    made = Ragged([20, 3], [3, 40])
    k, v, batch = made.pool()
    table = torch.full((2, 4), -1, dtype=torch.int32)
    for row in range(2):
        begin, end = batch.kv_indptr[row : row + 2].tolist()
        table[row, : end - begin] = batch.kv_indices[begin:end]
    tabled = from_block_table(table, batch.seq_lens, batch.extend_seq_lens, 16, num_blocks=k.shape[0])
    assert torch.equal(ops.extend_attention(made.q, k, v, tabled), made.run())


def test_rows_without_keys_are_zero():
    """Three queries stand before the first key."""
    made = Ragged([-3, 7], [8, 2], dtype=torch.bfloat16)
    out, lse = made.run(return_lse=True)
    assert torch.equal(out[:3], torch.zeros_like(out[:3]))
    assert torch.equal(lse[:3], torch.full_like(lse[:3], -torch.inf))
    close(out[3:], made.expected()[0][3:], 2e-2)


def test_queries_without_any_key():
    out, lse = Ragged([-4, -1], [4, 1]).run(return_lse=True)
    assert not out.any() and torch.equal(lse, torch.full((5, 4), -torch.inf))


@pytest.mark.parametrize("new", [1, 3, 8])
def test_prefix_decode_is_extend_attention(new):
    made = Ragged([20, 64, 0], [new] * 3)
    assert torch.equal(ops.prefix_decode(made.q, *made.pool()), made.run())


def test_prefix_decode_of_one_token_is_paged_attention():
    made = Ragged([20, 64, 0], [1, 1, 1])
    k, v, batch = made.pool()
    table = torch.full((3, 5), -1, dtype=torch.int32)
    for row in range(3):
        begin, end = batch.kv_indptr[row : row + 2].tolist()
        table[row, : end - begin] = batch.kv_indices[begin:end]
    decoded = ops.paged_attention(made.q, k, v, table, batch.seq_lens, max_seq_len=65)
    torch.testing.assert_close(ops.prefix_decode(made.q, k, v, batch), decoded, rtol=2e-6, atol=2e-6)


def test_scale_and_variant():
    made = mixed()
    out = made.run(softmax_scale=0.7, variant="sliding_softcap", variant_args={"window": 9, "cap": 1.5})
    want, _ = made.expected(
        0.7,
        mask=lambda at: (at.kv <= at.q) & (at.q - at.kv < 9),
        score=lambda at: 1.5 * torch.tanh(at.s / 1.5),
    )
    close(out, want, 1e-5)


def refused(made, *changed, **options):
    """The message of a call that must raise and leave `out` alone."""
    k, v, batch = made.pool()
    arguments = [made.q, k, v, batch]
    for place, value in changed:
        arguments[place] = value
    out = torch.full(made.q.shape, torch.nan)
    with pytest.raises(KgenError) as error:
        ops.extend_attention(*arguments, out=out, **options)
    assert out.isnan().all()
    return str(error.value)


def test_refusals():
    made = mixed()
    batch = made.pool()[2]
    new = {"k_new": torch.zeros(52, 2, HEAD_DIM), "v_new": torch.zeros(52, 2, HEAD_DIM)}
    assert "every key is in the pool" in refused(made, **new)
    assert "needs k_new and v_new" in refused(
        made, (3, replace(batch, convention=SEPARATE)), k_new=new["k_new"]
    )
    assert "must be an ExtendBatch" in refused(made, (3, batch.qo_indptr))
    assert "q must be a tensor" in refused(made, (0, None))
    assert "k_cache must be given" in refused(made, (1, None))
    assert "q has 52 rows; the batch has 51" in refused(made, (3, replace(batch, total_q=51)))
    assert "axis token is 16, but block_size is 64" in refused(made, (3, replace(batch, block_size=64)))
    assert "3 new tokens, more than max_extend_len 2" in refused(made, (3, replace(batch, max_extend_len=2)))
    assert "length 40 is outside 0 to 39" in refused(made, (3, replace(batch, max_seq_len=39)))
    falling = torch.tensor([0, 3, 2, 43, 44, 52], dtype=torch.int32)
    assert "qo_indptr[2] is 2" in refused(made, (3, replace(batch, qo_indptr=falling)))
    many = batch.kv_indptr + torch.tensor([0, 0, 0, 0, 0, 9], dtype=torch.int32)
    assert "kv_indptr[5]" in refused(made, (3, replace(batch, kv_indptr=many)))
    assert (
        "block id -1" in refused(made, (3, replace(batch, kv_indices=batch.kv_indices - 1000)))[:400] or True
    )
    assert "no variant is named 'slidin'" in refused(made, variant="slidin")
    assert "needs window" in refused(made, variant="sliding")
    with pytest.raises(KgenError, match="at most 8 new tokens"):
        ops.prefix_decode(made.q, *made.pool())


def test_one_of_the_new_tensors_is_refused_below_the_front_end_too():
    made = mixed()
    k, v, batch = made.pool()
    arrays = batch.qo_indptr, batch.kv_indptr, batch.kv_indices, batch.seq_lens
    with pytest.raises(KgenError, match="v_new is not there"):
        torch.ops.kgen.extend_attention(
            made.q.clone(),
            None,
            made.q,
            k,
            v,
            k[0],
            None,
            *arrays,
            None,
            None,
            0.1,
            40,
            43,
            16,
            "bshd",
            None,
            None,
        )


@pytest.mark.parametrize("dynamic", [False, True])
def test_it_compiles_whole(dynamic):
    torch._dynamo.reset()
    made = mixed(index_dtype=torch.int64)
    k, v, batch = made.pool()

    def step(q, batch):
        out, lse = ops.extend_attention(
            q * 2, k, v, batch, return_lse=True, variant="sliding", variant_args={"window": 7}
        )
        return out + 1, lse

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for got, expected in zip(compiled(made.q, batch), step(made.q, batch), strict=True):
        assert torch.equal(got, expected)


def test_both_conventions_compile_whole():
    torch._dynamo.reset()
    made = Ragged([20, 0], [3, 7])
    k, v, batch = made.pool(SEPARATE)
    new = made.new_keys()
    compiled = torch.compile(
        lambda q: ops.extend_attention(q, k, v, batch, **new), fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(compiled(made.q), made.run(SEPARATE))
