"""8-bit KV in extend beyond the spec's cases: where codes end, scales, NaN, the reach of numbers."""

import math

import pytest
import torch

from kgen import api, ops, reference
from kgen.fp8 import BY_TORCH
from kgen.metadata import SEPARATE, from_arrays
from kgen.quantise import dequantised, quantised

ARCHS = {
    "sim:gfx936": torch.float8_e4m3fn,
    "sim:gfx942": torch.float8_e4m3fnuz,
    "sim:sm_90": torch.float8_e4m3fn,
}
BLOCK, DIM, KV_HEADS, GROUP, NEW = 16, 64, 2, 3, 5


class Call:
    """One sequence of `prefix` tokens in the pool, scales by head, and new tokens of its own."""

    def __init__(self, arch, prefix, scales=(0.01, 0.02), dtype=torch.bfloat16):
        generator = torch.Generator().manual_seed(prefix)
        pages = max(-(-prefix // BLOCK), 1)
        self.arch, self.prefix, self.scales = arch, prefix, torch.tensor(scales)
        self.q = torch.randn(NEW, KV_HEADS * GROUP, DIM, generator=generator).to(dtype)
        k, v = torch.randn(2, pages, BLOCK, KV_HEADS, DIM, generator=generator)
        self.k, self.v = (quantised(each, self.scales.reshape(-1, 1), ARCHS[arch]) for each in (k, v))
        self.k_new, self.v_new = torch.randn(2, NEW, KV_HEADS, DIM, generator=generator).to(dtype)
        self.batch = from_arrays(
            torch.tensor([0, NEW], dtype=torch.int32),
            torch.tensor([0, pages], dtype=torch.int32),
            torch.arange(pages, dtype=torch.int32),
            seq_lens=torch.tensor([prefix + NEW], dtype=torch.int32),
            convention=SEPARATE,
            block_size=BLOCK,
        )

    def run(self, softmax_scale=0.125):
        return ops.extend_attention(
            self.q,
            self.k,
            self.v,
            self.batch,
            k_new=self.k_new,
            v_new=self.v_new,
            softmax_scale=softmax_scale,
            k_scale=self.scales,
            v_scale=self.scales,
            arch=self.arch,
        )

    def exact(self, softmax_scale=0.125):
        layout = api.check().layout("bshd")
        k, v = (dequantised(each, layout.k, self.scales) for each in (self.k, self.v))
        batch = self.batch
        return reference.extend_attention(
            self.q,
            k,
            v,
            batch.qo_indptr,
            batch.kv_indptr,
            batch.kv_indices,
            batch.seq_lens,
            softmax_scale,
            layout,
            k_new=self.k_new,
            v_new=self.v_new,
        )[0]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("prefix", [0, 1, 59, 63, 64, 65, 127, 128, 130])
def test_codes_may_end_anywhere_in_a_tile(arch, prefix):
    call = Call(arch, prefix)
    torch.testing.assert_close(call.run().double(), call.exact(), rtol=2e-2, atol=4e-3)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("scales", [(2.0**-40, 2.0**-60), (2.0**20, 2.0**30)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scales_far_from_the_size_of_new_keys_and_values(arch, scales, dtype):
    """Codes of old tokens stand for what vanishes beside the new ones, or the other way around."""
    call = Call(arch, 70, scales, dtype)
    codes = torch.randint(0, 64, call.k.shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    call.k, call.v = codes.view(ARCHS[arch]), codes.flip(1).contiguous().view(ARCHS[arch])
    softmax_scale = 0.125 if scales[0] < 1 else 1e-8
    most = torch.finfo(dtype).max
    want, got = call.exact(softmax_scale), call.run(softmax_scale).double()
    torch.testing.assert_close(got.clamp(-most, most), want.clamp(-most, most), rtol=2e-2, atol=4e-3)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("cache", ["k", "v"])
def test_a_nan_in_a_used_slot_makes_its_rows_nan_and_no_others(arch, cache):
    call = Call(arch, 70)
    codes = getattr(call, cache).view(torch.uint8)
    codes[1, 3, 1, 5] = BY_TORCH[str(ARCHS[arch]).removeprefix("torch.")].nan
    out = call.run()
    assert out[:, :GROUP].isfinite().all()
    poisoned = out[:, GROUP:] if cache == "k" else out[:, GROUP:, 5]
    assert poisoned.isnan().all()
    assert cache == "k" or out[:, GROUP:, :5].isfinite().all()


@pytest.mark.parametrize("arch", ARCHS)
def test_a_nan_behind_the_last_code_of_a_page_is_not_read(arch):
    call = Call(arch, 70)
    plain = call.run()
    nan = BY_TORCH[str(ARCHS[arch]).removeprefix("torch.")].nan
    for cache in (call.k, call.v):
        cache.view(torch.uint8)[70 // BLOCK, 70 % BLOCK :] = nan
    assert torch.equal(call.run(), plain)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_many_small_weights_count_beside_a_large_one(arch, dtype):
    """One key of weight 1 and value 0, and others of weight 2^-24 whose sum is the output."""
    call = Call(arch, 16 * BLOCK, (1.0, 1.0), dtype)
    call.q.zero_()[..., 0] = 1.0
    for each in (call.k, call.v, call.k_new, call.v_new):
        each.zero_()
    k, v = torch.zeros(2, *call.k.shape)
    k[0, 5, :, 0] = 1.0
    v[:] = 1.0
    v[0, 5] = 0.0
    call.k, call.v = k.to(ARCHS[arch]), v.to(ARCHS[arch])
    softmax_scale = 24 * math.log(2)
    want = call.exact(softmax_scale)
    assert float(want.min()) > 1e-5
    torch.testing.assert_close(call.run(softmax_scale).double(), want, rtol=1e-2, atol=0)
