"""8-bit KV in decode beyond the spec's cases: NaN codes, scales by head, and the reach of numbers."""

import math

import pytest
import torch

from kgen import api, ops, reference
from kgen.fp8 import BY_TORCH
from kgen.quantise import dequantised, quantised

ARCHS = {
    "sim:gfx936": torch.float8_e4m3fn,
    "sim:gfx942": torch.float8_e4m3fnuz,
    "sim:sm_90": torch.float8_e4m3fn,
}
BLOCK, DIM, KV_HEADS, GROUP = 16, 64, 2, 3
ONE = torch.ones(1)


def drawn(length: int, code_dtype: torch.dtype, seed: int = 1):
    """Queries, and a cache of one sequence with one scale a head."""
    generator = torch.Generator().manual_seed(seed)
    pages = -(-length // BLOCK)
    q = torch.randn(1, KV_HEADS * GROUP, DIM, generator=generator).bfloat16()
    scales = torch.tensor([0.01, 0.02])
    k, v = torch.randn(2, pages, BLOCK, KV_HEADS, DIM, generator=generator)
    caches = [quantised(each, scales.reshape(-1, 1), code_dtype) for each in (k, v)]
    return q, *caches, scales


def attend(arch, q, k, v, k_scale, v_scale, length, scale=0.125, **more):
    table = torch.arange(k.shape[0], dtype=torch.int32)[None]
    return ops.paged_attention(
        q,
        k,
        v,
        table,
        torch.tensor([length], dtype=torch.int32),
        max_seq_len=length,
        softmax_scale=scale,
        k_scale=k_scale,
        v_scale=v_scale,
        partition_size=0,
        arch=arch,
        **more,
    )


def exact(q, k, v, k_scale, v_scale, length, scale=0.125):
    layout = api.check().layout("bshd")
    wide = [dequantised(each, layout.k, one) for each, one in ((k, k_scale), (v, v_scale))]
    table = torch.arange(k.shape[0], dtype=torch.int32)[None]
    return reference.paged_attention(q, *wide, table, torch.tensor([length]), scale, layout)[0]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("cache", ["k", "v"])
def test_a_nan_in_a_used_slot_makes_its_rows_nan_and_no_others(arch, cache):
    q, k, v, scales = drawn(70, ARCHS[arch])
    codes = {"k": k, "v": v}[cache].view(torch.uint8)
    for sign in (0, 0x80):
        nan = BY_TORCH[str(ARCHS[arch]).removeprefix("torch.")].nan | sign
        old = codes[1, 3, 1, 5].clone()
        codes[1, 3, 1, 5] = nan
        out = attend(arch, q, k, v, scales, scales, 70)
        codes[1, 3, 1, 5] = old
        assert out[0, :GROUP].isfinite().all()
        poisoned = out[0, GROUP:] if cache == "k" else out[0, GROUP:, 5]
        assert poisoned.isnan().all()
        assert cache == "k" or out[0, GROUP:, :5].isfinite().all()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_a_strange_query_spoils_its_own_head_alone(arch, strange):
    q, k, v, scales = drawn(40, ARCHS[arch])
    plain = attend(arch, q, k, v, scales, scales, 40)
    q[0, 1, 7] = strange
    out = attend(arch, q, k, v, scales, scales, 40)
    assert out[0, 1].isnan().all()
    others = [head for head in range(KV_HEADS * GROUP) if head != 1]
    assert torch.equal(out[0, others], plain[0, others])


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("size", [1e30, 1e-30, 1e-38])
def test_queries_of_any_size_keep_their_digits(arch, size):
    """bf16 reaches far beyond f16, in which NVIDIA's kernels multiply."""
    q, k, v, scales = drawn(50, ARCHS[arch])
    large = (q.double() * size).bfloat16()
    scale = min(0.125 / size, 1e38)
    out = attend(arch, large, k, v, scales, scales, 50, scale)
    want = exact(large, k, v, scales, scales, 50, scale)
    torch.testing.assert_close(out.double(), want, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_head_of_small_queries_beside_one_of_large_ones(arch):
    q, k, v, scales = drawn(50, ARCHS[arch])
    q[0, 0] = q[0, 0] * 2.0**16
    q[0, 1] = q[0, 1] * 2.0**-8
    out = attend(arch, q, k, v, scales, scales, 50, 1.0)
    want = exact(q, k, v, scales, scales, 50, 1.0)
    torch.testing.assert_close(out[0, 1:].double(), want[0, 1:], rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("arch", ARCHS)
def test_many_small_weights_count_beside_a_large_one(arch):
    """One key of weight 1 and value 0, and others of weight 2^-27 whose sum is the output."""
    length = 16 * BLOCK
    q = torch.zeros(1, KV_HEADS * GROUP, DIM, dtype=torch.bfloat16)
    q[..., 0] = 1.0
    k, v = torch.zeros(2, length // BLOCK, BLOCK, KV_HEADS, DIM)
    k[0, 5, :, 0] = 1.0
    v[:] = 1.0
    v[0, 5] = 0.0
    k, v = (each.to(ARCHS[arch]) for each in (k, v))
    scale = 27 * math.log(2)
    out = attend(arch, q, k, v, ONE, ONE, length, scale)
    want = exact(q, k, v, ONE, ONE, length, scale)
    assert float(want.min()) > 1e-6
    torch.testing.assert_close(out.double(), want, rtol=1e-2, atol=0)


@pytest.mark.parametrize("arch", ARCHS)
def test_one_scale_for_all_is_that_scale_for_each_head(arch):
    q, k, v, _ = drawn(40, ARCHS[arch])
    each, one = torch.full((KV_HEADS,), 0.02), torch.full((1,), 0.02)
    spread = torch.full((5,), 7.0)
    spread[::3] = 0.02
    plain = attend(arch, q, k, v, each, each, 40)
    assert torch.equal(plain, attend(arch, q, k, v, one, one, 40))
    assert torch.equal(plain, attend(arch, q, k, v, one[0], spread[::3], 40))
