"""Extend attention by the argument lists of other projects: the same results, and what is refused."""

import inspect

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from kgen.integrations.hg_prefix import hg_prefix_decode_varlen_fwd, hg_prefix_prefill_varlen_fwd
from kgen.integrations.sglang_arrays import extend_attention_fwd
from kgen.integrations.switches import variant_for
from kgen.metadata import SEPARATE
from tests.dispatch.batch import close
from tests.dispatch.eight import eight_ragged
from tests.dispatch.ragged import HEAD_DIM, Ragged


def table_of(batch):
    """The pages of a batch as a block table."""
    counts = batch.kv_indptr.diff().tolist()
    table = torch.full((len(counts), max(counts)), -1, dtype=torch.int32)
    for row, count in enumerate(counts):
        begin = int(batch.kv_indptr[row])
        table[row, :count] = batch.kv_indices[begin : begin + count]
    return table


def hg(made, layout=1, **changes):
    """Arguments of the prefix functions for a batch in pages of 16."""
    k, v, batch = made.pool()
    if layout == 0:
        k, v = (cache.transpose(1, 2).contiguous() for cache in (k, v))
    lengths = torch.tensor([0, *made.lengths]).cumsum(0).int()
    arguments = {
        "q": made.q,
        "k": k,
        "v": v,
        "out": None,
        "cu_seqlens_q": batch.qo_indptr,
        "cu_seqlens_k": lengths,
        "seqused_k": None,
        "alibi_slopes": None,
        "block_table": table_of(batch),
        "max_seqlen_q": batch.max_extend_len,
        "max_seqlen_k": batch.max_seq_len,
        "p_dropout": 0.0,
        "softmax_scale": 0.3,
        "zero_tensors": False,
        "is_causal": True,
        "window_size_left": -1,
        "window_size_right": -1,
        "softcap": 0.0,
        "return_softmax": False,
        "layout": layout,
    }
    return {**arguments, **changes}


def some():
    return Ragged([20, 0, 5, 0], [3, 40, 1, 8])


@pytest.mark.parametrize("layout", [0, 1])
def test_prefill_in_both_layouts(layout):
    made = some()
    out, lse = hg_prefix_prefill_varlen_fwd(*hg(made, layout).values())
    want, want_lse = made.expected(0.3)
    assert lse.shape == (4, 52) and lse.is_contiguous()
    close(out, want)
    close(lse, want_lse.T)


def test_the_pool_of_layout_1_is_read_in_place(monkeypatch):
    seen = {}
    real = ops.extend_attention

    def watch(q, k_cache, v_cache, *rest, **named):
        seen.update(k=k_cache.data_ptr(), v=v_cache.data_ptr())
        return real(q, k_cache, v_cache, *rest, **named)

    monkeypatch.setattr(ops, "extend_attention", watch)
    arguments = hg(some())
    hg_prefix_prefill_varlen_fwd(**arguments)
    assert seen == {name: arguments[name].data_ptr() for name in "kv"}


def test_keys_without_pages():
    made = some()
    k, v = map(torch.cat, zip(*made.keys, strict=True))
    out, _ = hg_prefix_prefill_varlen_fwd(**hg(made, k=k, v=v, block_table=None))
    close(out, made.expected(0.3)[0])


def test_pages_of_8_bits():
    made = some()
    (q, k, v, _), scales, exact = eight_ragged(made, "pool")
    named = {"scales_k": scales["k_scale"], "scales_v": scales["v_scale"]}
    out, _ = hg_prefix_prefill_varlen_fwd(**hg(made, q=q, k=k, v=v, **named))
    close(out, exact.expected(0.3)[0])


def test_lengths_in_use_count():
    made = some()
    used = torch.tensor(made.lengths, dtype=torch.int32)
    wide = torch.tensor([0, 48, 96, 144, 192], dtype=torch.int32)
    out, _ = hg_prefix_prefill_varlen_fwd(**hg(made, cu_seqlens_k=wide, seqused_k=used))
    close(out, made.expected(0.3)[0])


@pytest.mark.parametrize(
    ("switches", "mask"),
    [
        ({"is_causal": False}, None),
        ({"window_size_left": 4}, lambda at: (at.kv <= at.q) & (at.q - at.kv <= 4)),
        ({"is_causal": False, "window_size_left": 4, "window_size_right": 2},
         lambda at: (at.kv - at.q <= 2) & (at.q - at.kv <= 4)),
        ({"is_causal": False, "window_size_right": 2}, lambda at: at.kv - at.q <= 2),
    ],
)  # fmt: skip
def test_windows(switches, mask):
    made = some()
    out, _ = hg_prefix_prefill_varlen_fwd(**hg(made, **switches))
    close(out, made.expected(0.3, mask=mask)[0])


def test_scores():
    made, slopes = some(), torch.tensor([0.5, 0.25, 0.1, 0.0])
    out, _ = hg_prefix_prefill_varlen_fwd(**hg(made, softcap=1.5))
    close(out, made.expected(0.3, score=lambda at: 1.5 * torch.tanh(at.s / 1.5))[0])
    out, _ = hg_prefix_prefill_varlen_fwd(**hg(made, alibi_slopes=slopes))
    slope = slopes.double().view(-1, 1, 1)
    close(out, made.expected(0.3, score=lambda at: at.s + slope * (at.kv - at.q))[0])


def test_decode_takes_up_to_eight():
    made = Ragged([20, 0], [3, 8])
    out, _ = hg_prefix_decode_varlen_fwd(*hg(made).values())
    close(out, made.expected(0.3)[0])
    with pytest.raises(KgenError, match="at most 8"):
        hg_prefix_decode_varlen_fwd(**hg(some()))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"p_dropout": 0.1}, "p_dropout is not served"),
        ({"return_softmax": True}, "return_softmax is not served"),
        ({"scales_q": torch.ones(1)}, "scales_q is not served"),
        ({"scales_k": torch.ones(1)}, "k_scale must not be given"),
        ({"s_aux": torch.ones(4)}, "s_aux is not served"),
        ({"layout": 2}, "in which order layout 2 keeps its values is not known"),
        ({"is_bf16_output": True}, "the output has the dtype of q"),
        ({"alibi_slopes": torch.ones(4, 4)}, "one slope a head"),
        ({"softcap": 1.0, "alibi_slopes": torch.ones(4)}, "no shipped variant is causal, a soft cap, ALiBi"),
        ({"max_seqlen_q": 39}, "max_extend_len is 39, but the arrays reach 40"),
    ],
)
def test_what_is_refused(change, told):
    out = torch.full((52, 4, HEAD_DIM), torch.nan)
    with pytest.raises(KgenError) as error:
        hg_prefix_prefill_varlen_fwd(**hg(some(), out=out, **change))
    assert told in str(error.value)
    assert out.isnan().all()


def test_the_public_argument_order():
    names = list(inspect.signature(hg_prefix_prefill_varlen_fwd).parameters)
    assert names == [
        *("q", "k", "v", "out", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "alibi_slopes", "block_table"),
        *("max_seqlen_q", "max_seqlen_k", "p_dropout", "softmax_scale", "zero_tensors", "is_causal"),
        *("window_size_left", "window_size_right", "softcap", "return_softmax", "layout"),
        *("scales_q", "scales_k", "scales_v", "s_aux", "is_bf16_output"),
    ]


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_sglang_arrays(index_dtype):
    made = Ragged([20, 0, 5, 0], [3, 40, 1, 8], block_size=1, index_dtype=index_dtype)
    k, v, batch = made.pool(SEPARATE)
    new, out = made.new_keys(), torch.full_like(made.q, torch.nan)
    pools = [cache.squeeze(1) for cache in (k, v)]
    extend_attention_fwd(
        made.q, new["k_new"], new["v_new"], out, *pools, batch.qo_indptr, batch.kv_indptr, batch.kv_indices,
        sm_scale=0.3, logit_cap=1.5, sliding_window_size=6,
    )  # fmt: skip
    want, _ = made.expected(
        0.3,
        mask=lambda at: (at.kv <= at.q) & (at.q - at.kv <= 6),
        score=lambda at: 1.5 * torch.tanh(at.s / 1.5),
    )
    close(out, want)


def test_sglang_arrays_with_a_pool_of_8_bits():
    made = Ragged([20, 0, 5, 0], [3, 40, 1, 8], block_size=1)
    (q, k, v, batch), options, exact = eight_ragged(made, SEPARATE)
    out = torch.full_like(q, torch.nan)
    scales = {name: options.pop(name) for name in ("k_scale", "v_scale")}
    arrays = batch.qo_indptr, batch.kv_indptr, batch.kv_indices
    extend_attention_fwd(q, *options.values(), out, k[:, 0], v[:, 0], *arrays, sm_scale=0.3, **scales)
    close(out, exact.expected(0.3)[0])


@pytest.mark.parametrize("name", ["custom_mask", "sinks"])
def test_sglang_masks_are_refused(name):
    made = Ragged([20, 0], [3, 4], block_size=1)
    k, v, batch = made.pool(SEPARATE)
    new, out = made.new_keys(), torch.full_like(made.q, torch.nan)
    arrays = batch.qo_indptr, batch.kv_indptr, batch.kv_indices
    with pytest.raises(KgenError, match=f"{name} is not served"):
        extend_attention_fwd(made.q, *new.values(), out, k[:, 0], v[:, 0], *arrays, **{name: torch.ones(4)})
    assert out.isnan().all()


def test_a_window_without_causality_and_a_cap_is_no_variant():
    with pytest.raises(KgenError, match="a window, a soft cap together"):
        variant_for("f", causal=False, left=3, right=2, softcap=1.0)
