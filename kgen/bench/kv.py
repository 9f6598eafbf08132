"""What the caches of a measured call hold: the queries' dtype, or 8-bit floats with a scale."""

from __future__ import annotations

import torch
from torch import Tensor

from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.dispatch import gpu
from kgen.quantise import format_of, values_of
from kgen.semantics import DTYPES
from kgen.spec.benches import FLOAT_TYPES, KV_TYPES
from kgen.spec.load import load_catalog
from kgen.testing.memory import torch_dtype

REACH = 8.0
"""The largest value that a scale lets a drawn cache hold: normal values stay far below it."""


def check_dtypes(dtype: str, kv_dtype: str) -> None:
    """Raise KgenError (K580) for what no call holds."""
    for name, value, known in (("dtype", dtype, FLOAT_TYPES), ("kv-dtype", kv_dtype, KV_TYPES)):
        if value not in known:
            hint = choice_hint(value, list(known))
            raise KgenError(Diagnostic("K580", f"--{name} {value} is not known", hint=hint))


def label(dtype: str, kv_dtype: str) -> str:
    """Both in the words of variants' names."""
    return dtype if kv_dtype in ("", dtype) else f"{dtype} kv{kv_dtype}"


def stored(kv_dtype: str, device: str) -> torch.dtype:
    """The torch dtype of a cache: 8-bit floats are of the flavour that kernels for the device read. Raises
    KgenError (K580) where they read none."""
    arch = gpu.arch_of(device) if device != "cpu" else "cpu_generic"
    target = load_catalog().targets.get(arch)
    found = torch_dtype(kv_dtype, target.numbers.fp8 if target is not None else "none")
    if found is None:
        hint = "measure a KV dtype of 16 bits there"
        raise KgenError(Diagnostic("K580", f"kernels for {arch} read no {kv_dtype}", hint=hint))
    return found


def scale_for(dtype: torch.dtype, device: str) -> Tensor | None:
    """One scale for a cache of normal values; None where it needs none."""
    one = format_of(dtype)
    return None if one is None else torch.tensor([REACH / one.most], device=device)


def drawn(values: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Normal values as a cache holds them."""
    return (values if scale is None else values / scale).to(dtype)


def meant(rows: Tensor, scale: Tensor | None) -> Tensor:
    """What rows of a cache stand for, in float64 where that is not what they hold."""
    return rows if scale is None else values_of(rows) * scale.double()


def element_size(dtype: str, kv_dtype: str) -> int:
    """Bytes of an element of a cache."""
    return DTYPES[kv_dtype or dtype]
