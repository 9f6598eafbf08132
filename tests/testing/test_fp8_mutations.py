"""Cases over 8-bit floats can fail: a stand-in in float32 passes, and every small fault is found."""

import dataclasses
import math

import pytest
import torch

from kgen import reference
from kgen.diagnostics import Diagnostic, KgenError
from kgen.fp8 import FORMATS
from kgen.quantise import quantised, values_of
from kgen.testing.attention import layout_of
from kgen.testing.case import Inputs
from tests.testing.test_mutations import StandIn, attention_variant, outcomes, variant


def refuse_bad_scales(inputs: Inputs) -> None:
    for name in ("k_scale", "v_scale"):
        if not bool(((inputs[name] > 0) & inputs[name].isfinite()).all()):
            raise KgenError(Diagnostic("K519", "scale"))


@dataclasses.dataclass
class EightBits(StandIn):
    """paged_attention over codes, with one fault built in or none."""

    def __call__(self, inputs: Inputs) -> None:
        refuse_bad_scales(inputs)
        read = {**inputs.placed}
        for which in "kv":
            cache = inputs[f"{which}_cache"]
            axis = reference.known_order(layout_of(inputs.case), which).axes.index("head")
            values = self.read(cache, self.scale(inputs, which), axis)
            read[f"{which}_cache"] = dataclasses.replace(inputs.placed[f"{which}_cache"], tensor=values)
        super().__call__(dataclasses.replace(inputs, placed=read))

    def scale(self, inputs: Inputs, which: str) -> torch.Tensor:
        if self.fault == "scales swapped":
            which = "v" if which == "k" else "k"
        scale = inputs[f"{which}_scale"]
        if self.fault == "first scale for all":
            scale = scale[:1]
        if self.fault == f"no {which}_scale":
            scale = torch.ones(1)
        return scale

    def read(self, cache: torch.Tensor, scale: torch.Tensor, axis: int) -> torch.Tensor:
        if self.fault == "other flavour":
            cache = cache.view({1: torch.float8_e4m3fnuz}[cache.element_size()])
        values = values_of(cache).float()
        if self.fault == "flushed":
            values[values.abs() < 2.0**-6] = 0
        if self.fault == "largest lost":
            values[values.abs() == 448] = 416
        if self.fault == "last bit":
            values = torch.where(cache.view(torch.uint8) % 128 == 0x69, values * 1.125, values)
        shape = [1] * cache.dim()
        shape[axis] = -1
        return values * scale.reshape(shape)


def eight(op="paged_attention", **params):
    if op == "paged_attention":
        return attention_variant("f32", kv_dtype="fp8_e4m3", **params)
    return variant(
        op, **{"kv_dtype": "fp8_e4m3", "head_dim": 32, "block_size": 16, "layout": "bshd", **params}
    )


@pytest.mark.parametrize("kv_dtype", ["fp8_e4m3", "fp8_e5m2"])
def test_right_attention_passes(monkeypatch, kv_dtype):
    made = attention_variant("f32", kv_dtype=kv_dtype, layout="bshd")
    assert outcomes(monkeypatch, made, EightBits()) == []


@pytest.mark.parametrize(
    "fault",
    [
        *("scales swapped", "first scale for all", "no k_scale", "no v_scale", "other flavour"),
        *("flushed", "largest lost", "last bit", "dropped token", "wrong group"),
    ],
)
def test_wrong_attention_is_found(monkeypatch, fault):
    assert outcomes(monkeypatch, eight(), EightBits(fault)) != []


def test_a_scale_that_is_not_looked_at_is_found(monkeypatch):
    monkeypatch.setattr("tests.testing.test_fp8_mutations.refuse_bad_scales", lambda inputs: None)
    found = outcomes(monkeypatch, eight(), EightBits())
    assert {"k_scale of 0: not refused", "infinite v_scale: not refused"} <= set(found)


@dataclasses.dataclass
class Writer:
    """reshape_and_cache into codes, with one fault built in or none."""

    fault: str = ""

    def __call__(self, inputs: Inputs) -> None:
        refuse_bad_scales(inputs)
        slots = inputs["slot_mapping"]
        room = inputs["k_cache"].shape[0] * inputs.case.variant.params["block_size"]
        if bool(((slots < -1) | (slots >= room)).any()):
            raise KgenError(Diagnostic("K533", "slot"))
        for new, which in (("key", "k"), ("value", "v")):
            cache = inputs[f"{which}_cache"]
            codes = self.codes(inputs[new], inputs[f"{which}_scale"], cache.dtype)
            for token in (slots >= 0).nonzero()[:, 0].tolist():
                page, place = divmod(int(slots[token]), inputs.case.variant.params["block_size"])
                cache.view(torch.uint8)[page, place] = codes[token]

    def codes(self, values: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        one = FORMATS["fp8_e4m3", "ocp"]
        values, scale = values.float(), scale.reshape(-1, 1)
        if self.fault == "multiplied":
            scale = 1 / scale
        if self.fault == "reciprocal":
            return quantised(values * (1 / scale), torch.ones(1), dtype).view(torch.uint8)
        if self.fault == "towards zero":
            values = torch.where(values.isfinite(), values * (1 - 2.0**-6), values)
        codes = quantised(values, scale, dtype).view(torch.uint8).clone()
        size = (values / scale).abs()
        if self.fault == "overflow is NaN":
            codes[size > one.most] = one.nan
        if self.fault == "infinity is NaN":
            codes[size.isinf()] = one.nan
        if self.fault == "NaN is large":
            codes[size.isnan()] = one.most_code
        if self.fault == "one zero":
            codes[codes == 0x80] = 0
        if self.fault == "flushed":
            codes[codes & 0x7F < 8] = 0
        if self.fault == "ties away":
            away = torch.tensor([one.encode(math.nextafter(v, math.inf)) for v in size.flatten().tolist()])
            codes = torch.where(size.isnan(), codes, (codes & 0x80) | away.to(torch.uint8).view(size.shape))
        return codes


def test_a_right_writer_passes(monkeypatch):
    assert outcomes(monkeypatch, eight("reshape_and_cache", dtype="f32"), Writer()) == []
    assert outcomes(monkeypatch, eight("reshape_and_cache", dtype="bf16"), Writer()) == []


@pytest.mark.parametrize(
    "fault",
    [
        *("multiplied", "reciprocal", "towards zero", "overflow is NaN", "infinity is NaN", "NaN is large"),
        *("one zero", "flushed", "ties away"),
    ],
)
def test_a_wrong_writer_is_found(monkeypatch, fault):
    assert outcomes(monkeypatch, eight("reshape_and_cache", dtype="f32"), Writer(fault)) != []
