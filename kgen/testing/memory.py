"""Tensors that lie in hostile memory: poison before, between and after what belongs to them.

A kernel that reads a gap poisons its result; a kernel that writes one is found by `Placed.spilled`.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from kgen.fp8 import SIGN
from kgen.quantise import dtype_of, format_of

DTYPES: Mapping[str, torch.dtype] = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
}


def torch_dtype(name: str, flavour: str) -> torch.dtype | None:
    """The torch dtype of a dtype of the specs, of 8-bit floats in a flavour; None where there is none."""
    return DTYPES[name] if name in DTYPES else dtype_of(name, flavour)


MAP_NORESERVE = 0x4000  # Linux; Python names it only from 3.13 on


@dataclass(frozen=True)
class Garbage:
    """What unused memory holds: a float for values, an index for tables, a byte for raw pages."""

    name: str
    value: float
    index: int
    byte: int

    def fill(self, tensor: Tensor) -> Tensor:
        """Fill the tensor in place, by its kind of element."""
        if (code := self.code(tensor.dtype)) is not None:
            tensor.view(torch.uint8).fill_(code)
            return tensor
        if tensor.dtype.is_floating_point:
            return tensor.fill_(self.value)
        return tensor.fill_(self.byte if tensor.dtype == torch.uint8 else self.index)

    def code(self, dtype: torch.dtype) -> int | None:
        """The value as a code of 8-bit floats, infinity as the largest there is; None for other dtypes."""
        one = format_of(dtype)
        if one is None:
            return None
        return one.nan if math.isnan(self.value) else SIGN | (one.most_code + one.infinite)

    def spoil(self, values: Tensor, where: Tensor) -> None:
        """Put garbage in place of the floats where `where` [leading axes of values] holds."""
        if (code := self.code(values.dtype)) is not None:
            values.view(torch.uint8)[where] = code
        else:
            values[where] = self.value


NAN = Garbage("nan", float("nan"), -1, 0xA5)
HUGE = Garbage("huge", float("-inf"), 2**31 - 1, 0x5A)


@dataclass(frozen=True)
class Form:
    """How tensors lie. `guard`: elements of poison on either side; `gap`: how much longer than its
    last axis a row is (other inner axes are one longer; 0 means packed); `far`: cache pages so far
    apart that offsets pass 2^31; `slack`: how much a host bound on lengths exceeds the longest."""

    name: str
    guard: int = 24
    gap: int = 0
    far: bool = False
    slack: int = 0


PLAIN = Form("plain")
STRIDED = Form("strided", gap=8, slack=3)
LOOSE = Form("loose", guard=25, gap=5, slack=3)
"""Strided, and nothing aligned to more than an element, which a CPU kernel must bear."""
FAR = Form("far", far=True)


@dataclass(frozen=True)
class Placed:
    """A tensor, and the one-dimensional storage around it as it was before any call (None where
    that is too large to keep)."""

    tensor: Tensor
    storage: Tensor
    before: Tensor | None

    def spilled(self) -> bool:
        """Whether anything outside the tensor has changed since it was placed."""
        if self.before is None:
            return False
        expected = self.before.clone()
        own = expected.as_strided(self.tensor.shape, self.tensor.stride(), self.tensor.storage_offset())
        own.copy_(self.tensor)
        return not same_bits(expected, self.storage)

    def changed(self) -> bool:
        """Whether anything at all has changed."""
        return self.before is not None and not same_bits(self.before, self.storage)


def place(values: Tensor, form: Form, garbage: Garbage) -> Placed:
    """A copy of `values`, any shape, in storage filled with garbage. The last axis has stride 1."""
    outer = list(values.shape)
    guard, gap = (_room(values.dtype, count) for count in (form.guard, form.gap))
    if gap and len(outer) > 1:
        outer[1:-1] = [extent + 1 for extent in outer[1:-1]]
        outer[-1] += gap
    size = 1
    for extent in outer:
        size *= extent
    storage = garbage.fill(torch.empty(size + 2 * guard, dtype=values.dtype))
    tensor = storage[guard : guard + size].view(outer)
    for axis, extent in enumerate(values.shape):
        tensor = tensor.narrow(axis, 0, extent)
    tensor.copy_(values)
    return Placed(tensor, storage, storage.clone())


def _room(dtype: torch.dtype, count: int) -> int:
    """Elements of poison: of 8-bit floats twice as many, so that what keeps rows of 16 bits on their 16
    bytes keeps theirs; an odd number is there to keep nothing aligned."""
    return count * 2 if format_of(dtype) is not None and count % 2 == 0 else count


def place_cache(values: Tensor, form: Form, garbage: Garbage) -> Placed:
    """Like `place`; in the far form the offset of the last page, axis 0, is past 2^31 elements.

    Only the pages themselves are touched, so the memory in between is never really taken.
    """
    if not form.far:
        return place(values, form, garbage)
    step = (2**31 + 2**21) // max(values.shape[0] - 1, 1)
    room = (step * values.shape[0] + form.guard) * values.element_size()
    region = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    storage = torch.frombuffer(region, dtype=torch.uint8).view(values.dtype)
    tensor = storage.as_strided(values.shape, (step, *values.contiguous().stride()[1:]))
    tensor.copy_(values)
    return Placed(tensor, storage, None)


def place_output(shape: tuple[int, ...], dtype: torch.dtype, form: Form, garbage: Garbage) -> Placed:
    """A tensor to be written: garbage inside and around."""
    return place(garbage.fill(torch.empty(shape, dtype=dtype)), form, garbage)


def same_bits(one: Tensor, two: Tensor) -> bool:
    """Equal shapes and equal bytes; NaN equals itself, +0 and -0 differ."""
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    return torch.equal(_bytes(one), _bytes(two))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)
