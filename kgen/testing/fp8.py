"""Caches of 8-bit floats in a case: drawn code by code, with scales, and what they stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from kgen.fp8 import FORMATS, Format
from kgen.layout import Layout
from kgen.quantise import dequantised, format_of, quantised
from kgen.reference import known_order
from kgen.testing.case import Case, Fault, Inputs
from kgen.testing.memory import Form, Garbage, Placed, place, torch_dtype

SPREAD = 8.0
"""Values of a cache lie between this and its half, at most; most of them are about 1."""
WILD = 1 / 16
"""The share of elements that are drawn among all finite codes, the largest and the smallest included."""


def kv_format(case: Case) -> Format | None:
    """The 8-bit floats of the case's caches; None where they hold others."""
    return FORMATS.get((str(case.variant.params["kv_dtype"]), case.variant.target.numbers.fp8))


def kv_dtype(case: Case) -> torch.dtype:
    """The torch dtype of the case's caches."""
    found = torch_dtype(str(case.variant.params["kv_dtype"]), case.variant.target.numbers.fp8)
    assert found is not None  # the variant was accepted
    return found


def multiplies_bf16(case: Case) -> bool:
    """Whether the case's host multiplies pairs of bf16, and the case has queries of it."""
    return case.variant.params["dtype"] == "bf16" and "avx512_bf16" in case.variant.target.requires


def draw_scales(case: Case, heads: int, generator: torch.Generator) -> Mapping[str, Tensor]:
    """k_scale and v_scale [heads] or [1], at random; nothing where the caches need none."""
    one = kv_format(case)
    if one is None:
        return {}
    scales = {}
    for name in ("k_scale", "v_scale"):
        count = heads if int(torch.randint(2, (1,), generator=generator)) else 1
        scales[name] = (0.5 + 0.5 * torch.rand(count, generator=generator)) * (SPREAD / one.most)
    return scales


def draw_values(case: Case, shape: Sequence[int], scale: Tensor | None, generator: torch.Generator) -> Tensor:
    """What live slots of a cache hold [..., heads, head_dim]: normal values; of 8-bit floats some are of any
    finite code instead."""
    drawn = torch.randn(*shape, generator=generator)
    one = kv_format(case)
    if one is None or scale is None:
        return drawn.to(kv_dtype(case))
    codes = quantised(drawn, scale.reshape(-1, 1), kv_dtype(case)).view(torch.uint8)
    finite = torch.tensor([code for code in range(256) if math.isfinite(one.value(code))], dtype=torch.uint8)
    wild = finite[torch.randint(len(finite), tuple(shape), generator=generator)]
    chosen = torch.rand(*shape, generator=generator) < WILD
    return torch.where(chosen, wild, codes).view(kv_dtype(case))


def place_scale(scale: Tensor, form: Form, garbage: Garbage) -> Placed:
    """A scale in memory, with garbage between its elements where tensors are strided."""
    placed = place(scale.unsqueeze(1), form, garbage)
    return Placed(placed.tensor[:, 0], placed.storage, placed.before)


def cache_values(inputs: Inputs, which: str, layout: Layout) -> Tensor:
    """What the k or v cache stands for, in its own order: float64 of 8-bit floats, else the cache itself."""
    cache = inputs[f"{which}_cache"]
    if format_of(cache.dtype) is None:
        return cache
    return dequantised(cache, known_order(layout, which), inputs[f"{which}_scale"])


def scale_of(inputs: Inputs, name: str) -> Tensor | None:
    """k_scale or v_scale of a case; None where it has none."""
    return inputs[name] if name in inputs.placed else None


def scale_faults(inputs: Inputs) -> tuple[Fault, ...]:
    """Scales that are none."""
    if "k_scale" not in inputs.placed:
        return ()
    return (
        Fault("k_scale of 0", lambda to: to["k_scale"][-1:].fill_(0.0)),
        Fault("negative v_scale", lambda to: to["v_scale"][-1:].fill_(-1.0)),
        Fault("k_scale that is NaN", lambda to: to["k_scale"][:1].fill_(math.nan)),
        Fault("infinite v_scale", lambda to: to["v_scale"][:1].fill_(math.inf)),
    )
