"""Calls over caches of 8-bit floats, on this host and through both bindings: values, codes and refusals."""

import math

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from kgen.dispatch.calls import CALLS
from kgen.metadata import SEPARATE
from kgen.quantise import dequantised
from tests.dispatch.batch import BLOCK, BSHD, HEAD_DIM, Batch, close
from tests.dispatch.eight import E4M3, E5M2, KV_HEADS, Eight, eight_ragged, scale_of, torch_dtype
from tests.dispatch.ragged import Ragged


@pytest.fixture(autouse=True)
def _launcher(launcher, fresh):
    pass


LENS = [5, 0, 77, 1, 16, 17, 47]


@pytest.mark.parametrize("one", [E4M3, E5M2], ids=["e4m3", "e5m2"])
@pytest.mark.parametrize("options", [{"policy": "single_pass"}, {"partition_size": 64}])
def test_decode_attends_to_what_codes_stand_for(one, options):
    made = Eight(LENS, one)
    out, lse = made.run(return_lse=True, **options)
    want, want_lse = made.expected()
    close(out, want)
    close(lse, want_lse)
    assert out[1].eq(0).all() and lse[1].eq(-math.inf).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 1e-3), (torch.bfloat16, 1e-2)])
def test_queries_of_16_bits(dtype, tolerance):
    made = Eight(LENS, dtype=dtype)
    out = made.run()
    assert out.dtype == dtype
    close(out, made.expected()[0], tolerance)


def test_scales_may_lie_apart_and_are_read_at_each_call():
    apart = scale_of(E4M3, (KV_HEADS, 3))
    made = Eight(LENS, k_scale=apart[:, 1], v_scale=apart[:, 0])
    assert made.k_scale.stride() == (3,)
    close(made.run(), made.expected()[0])
    made.v_scale *= 2
    close(made.run(), made.expected()[0])


def test_the_softmax_scale_counts_beside_the_scale_of_keys():
    made = Eight(LENS)
    close(made.run(softmax_scale=-0.7), made.expected(-0.7)[0])


def test_a_nan_that_is_used_is_a_nan_in_the_result():
    made = Eight([20, 30])
    page, slot = int(made.batch.block_table[0, 1]), 2
    made.v.view(torch.uint8)[page, slot, 1, 7] = E4M3.nan
    out = made.run()
    assert out[0, 2:, 7].isnan().all()
    out[0, 2:, 7] = 0
    assert not out.isnan().any()
    made.k.view(torch.uint8)[page, slot, 0, 0] = 0x80 | E4M3.nan
    out = made.run()
    assert out[0, :2].isnan().all() and not out[1].isnan().any()


def test_formats_do_not_share_a_plan():
    one, two = Eight(LENS, E4M3), Eight(LENS, E5M2)
    for made in (one, two, one, two):
        close(made.run(), made.expected()[0])
    plain = Batch(LENS)
    close(plain.run(), plain.expected()[0])


def test_8_bit_tensors_take_the_short_way():
    made = Eight(LENS)
    made.run()
    call = made.call()
    tensors = [torch.empty_like(call["q"]), None]
    tensors += [call[name] for name in ("q", "k_cache", "v_cache", "block_table", "seq_lens")]
    tensors += [call["k_scale"], call["v_scale"]]
    keywords = ["bshd", *[None] * (len(ops.dispatcher().policy("paged_attention").select)), None, None, None]
    assert CALLS["paged_attention"](*tensors, None, call["max_seq_len"], *keywords)


def test_it_compiles_whole():
    torch._dynamo.reset()
    made = Eight(LENS)

    def step(q):
        return made.run(q=q * 2) + 1

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(made.batch.q), step(made.batch.q))


def message(made, **changes):
    out = torch.full_like(made.batch.q, torch.nan)
    with pytest.raises(KgenError) as error:
        made.run(out=out, **changes)
    assert out.isnan().all()
    return str(error.value)


def test_what_a_call_must_say():
    made = Eight(LENS)
    assert "k_scale must be given: keys of 8 bits are multiples of a scale" in message(made, k_scale=None)
    assert "k_scale axis head is 3, but num_kv_heads is 2" in message(made, k_scale=torch.ones(3))
    assert "v_scale is float64; it must be f32" in message(made, v_scale=torch.ones(2).double())
    assert "v_scale must be a tensor, found float" in message(made, v_scale=0.5)
    plain = {"k_cache": made.batch.k, "v_cache": made.batch.v}
    told = message(made, **plain)
    assert "k_scale must not be given" in told and "v_scale must not be given" in told


def test_caches_that_are_something_else():
    made = Eight(LENS)
    caches = {"k_cache": made.k, "v_cache": made.v}
    fnuz = {name: cache.view(torch.float8_e4m3fnuz) for name, cache in caches.items()}
    told = message(made, **fnuz)
    assert "k_cache and v_cache hold fnuz floats (float8_e4m3fnuz); kernels of cpu_" in told
    assert "read ocp ones (float8_e4m3fn)" in told
    assert "of two flavours" in message(made, v_cache=fnuz["v_cache"])
    raw = {name: cache.view(torch.uint8) for name, cache in caches.items()}
    assert "view them as one of torch.float8_e4m3fn" in message(made, **raw)
    assert "v_cache is fp8_e5m2, but kv_dtype is fp8_e4m3" in message(
        made, v_cache=made.v.view(torch.float8_e5m2)
    )


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_is_a_number_above_0(bad):
    scale = torch.tensor([0.5, bad])
    made = Eight(LENS)
    assert f"k_scale of KV head 1 is {bad}" in message(made, k_scale=scale)
    assert f"v_scale of KV head 1 is {bad}" in message(made, v_scale=scale)
    key = torch.randn(1, KV_HEADS, HEAD_DIM)
    before = made.k.clone()
    with pytest.raises(KgenError, match="K519"):
        ops.reshape_and_cache(
            key, key, made.k, made.v, torch.tensor([3]), k_scale=made.k_scale, v_scale=scale
        )
    assert torch.equal(made.k.view(torch.uint8), before.view(torch.uint8))


@pytest.mark.parametrize("one", [E4M3, E5M2], ids=["e4m3", "e5m2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_code_is_written_and_read_back(one, dtype):
    """What codes stand for goes through reshape_and_cache and gives the same codes."""
    scale = torch.tensor(0.25)
    every = torch.arange(256, dtype=torch.uint8).view(torch_dtype(one))
    values = dequantised(every.view(2, 1, 2, 64), BSHD.order("k"), scale)[:, 0]
    k, v = (torch.zeros(1, BLOCK, 2, 64, dtype=torch_dtype(one)) for _ in "kv")
    slots = torch.tensor([5, 9])
    ops.reshape_and_cache(values.to(dtype), -values.to(dtype), k, v, slots, k_scale=scale, v_scale=scale)
    finite = torch.tensor([math.isfinite(value) for value in one.values])
    written = k.view(torch.uint8)[0, [5, 9]].flatten()
    assert torch.equal(written[finite], every.view(torch.uint8)[finite])
    assert torch.equal(v.view(torch.uint8)[0, [5, 9]].flatten()[finite], written[finite] ^ 0x80)
    above = torch.tensor([math.isinf(value) for value in one.values])
    assert set((written[above] & 0x7F).tolist()) <= {one.most_code}
    assert (written[~finite & ~above] == one.nan).all()
    rest = [slot for slot in range(BLOCK) if slot not in (5, 9)]
    assert k.view(torch.uint8)[0, rest].eq(0).all()


def test_pages_move_byte_for_byte():
    """copy_blocks and swap_blocks know nothing of what bytes mean; NaN codes arrive as they left."""
    pages = torch.arange(256, dtype=torch.uint8).repeat(4).view(8, 4, 2, 16).view(torch.float8_e4m3fn)
    host = torch.zeros_like(pages)
    ops.swap_blocks(pages, host, torch.tensor([[1, 5], [6, 0]]))
    assert torch.equal(host.view(torch.uint8)[[5, 0]], pages.view(torch.uint8)[[1, 6]])
    assert host.view(torch.uint8)[[1, 2, 3, 4, 6, 7]].eq(0).all()
    before = pages.view(torch.uint8).clone()
    ops.copy_blocks([pages, host], torch.tensor([[0, 7]]))
    assert torch.equal(pages.view(torch.uint8)[7], before[0])
    assert torch.equal(host.view(torch.uint8)[7], before[6])


@pytest.mark.parametrize("convention", ["pool", SEPARATE])
@pytest.mark.parametrize("one", [E4M3, E5M2], ids=["e4m3", "e5m2"])
def test_extend_attends_to_codes_and_to_new_keys_without_a_scale(convention, one):
    made = Ragged([70, 0, 5, 33], [3, 40, 1, 70])
    arguments, options, exact = eight_ragged(made, convention, one)
    out, lse = ops.extend_attention(*arguments, return_lse=True, **options)
    want, want_lse = exact.expected()
    close(out, want)
    close(lse, want_lse)


def test_prefix_decode_takes_scales_too():
    made = Ragged([70, 0, 5], [3, 8, 1])
    arguments, options, exact = eight_ragged(made, SEPARATE)
    close(ops.prefix_decode(*arguments, **options), exact.expected()[0])
    with pytest.raises(KgenError, match="v_scale must be given"):
        ops.prefix_decode(*arguments, **{**options, "v_scale": None})
