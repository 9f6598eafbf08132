"""8-bit floats in plain torch, to the bit: what a cache of them stands for, and how values become codes.

Written from the definitions in `kgen.fp8` with tables, for the oracle and for what need not be fast.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kgen.fp8 import BY_TORCH, FORMATS, SIGN, Format
from kgen.layout import TensorOrder


def format_of(dtype: torch.dtype) -> Format | None:
    """The 8-bit floats of a torch dtype; None where it is none of them."""
    return BY_TORCH.get(str(dtype).removeprefix("torch."))


def dtype_of(dtype: str, flavour: str) -> torch.dtype | None:
    """The torch dtype of 8-bit floats, by their name in specs and their flavour; None where there is none."""
    one = FORMATS.get((dtype, flavour))
    found: torch.dtype | None = None if one is None else getattr(torch, one.torch)
    return found


def dequantised(cache: Tensor, order: TensorOrder, scale: Tensor) -> Tensor:
    """What a cache of 8-bit floats stands for: float64 in the cache's own order, each value times the scale
    of its head. scale: f32, one element or [Hkv]."""
    shape = [1] * cache.dim()
    shape[order.axes.index("head")] = -1
    return values_of(cache) * scale.double().reshape(shape)


def values_of(tensor: Tensor) -> Tensor:
    """A tensor as float64; 8-bit floats by the table of their format."""
    one = format_of(tensor.dtype)
    if one is None:
        return tensor.double()
    table = torch.tensor(one.values, dtype=torch.float64, device=tensor.device)
    return table[tensor.view(torch.uint8).long()]


def quantised(values: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """values / scale as 8-bit floats of `dtype`: the quotient in float32, then the nearest code, ties to
    even; beyond the largest finite value that one; NaN stays NaN. scale broadcasts to values."""
    one = format_of(dtype)
    if one is None:
        raise TypeError(f"{dtype} is not a dtype of 8-bit floats")
    quotients = (values.float() / scale.float()).double()
    finite = torch.tensor(one.values[: one.most_code + 1], dtype=torch.float64)
    middles = (finite[1:] + finite[:-1]) / 2
    sizes = quotients.abs().nan_to_num(nan=0.0)
    codes = torch.bucketize(sizes, middles)  # of two codes equally near the lower one
    tied = middles[codes.clamp(max=len(middles) - 1)] == sizes
    codes += (tied & (codes % 2 == 1)).long()
    negative = quotients.signbit() & ((codes > 0) | torch.tensor(one.flavour == "ocp"))
    codes += SIGN * negative.long()
    return codes.masked_fill(quotients.isnan(), one.nan).to(torch.uint8).view(dtype)
