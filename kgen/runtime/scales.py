"""What the codes of an 8-bit KV cache are multiplied by: one factor a layer, or one for each of its KV heads.

A scale belongs to the memory, not to a call: what was written by one must be read by the same. They are
chosen before anything is written, from the largest magnitudes that were observed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from kgen.fp8 import BY_TORCH
from kgen.runtime.errors import fault

FLOAT8: tuple[torch.dtype, ...] = tuple(getattr(torch, name) for name in BY_TORCH)
"""The dtypes whose elements need a scale."""
ROOM = 2.0
"""How many times as large as observed a value may be before it is cut."""


@dataclass(frozen=True)
class KVScales:
    """`keys` and `values`: [num_layers, 1] or [num_layers, num_kv_heads], float32, finite and above 0.

    Raises K701 for anything else."""

    keys: torch.Tensor
    values: torch.Tensor

    def __post_init__(self) -> None:
        for name, tensor in (("keys", self.keys), ("values", self.values)):
            if tensor.dtype != torch.float32 or tensor.dim() != 2:
                found = f"{tensor.dtype} of shape {list(tensor.shape)}"
                raise fault("K701", f"scales of {name} are {found}, expected float32 [layers, 1 or KV heads]")
            if not bool((torch.isfinite(tensor) & (tensor > 0)).all()):
                raise fault("K701", f"a scale of {name} is not finite and above 0")

    def layer(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The scales of one layer, keys' and values'."""
        return self.keys[layer], self.values[layer]

    def to(self, device: torch.device) -> KVScales:
        """The same on a device."""
        return KVScales(self.keys.to(device), self.values.to(device))

    def check(self, num_layers: int, num_kv_heads: int) -> None:
        """Raise K701 where they are not those of such a memory."""
        for name, tensor in (("keys", self.keys), ("values", self.values)):
            layers, heads = tensor.shape
            if layers != num_layers or heads not in (1, num_kv_heads):
                expected = f"[{num_layers}, 1] or [{num_layers}, {num_kv_heads}]"
                message = f"scales of {name} are [{layers}, {heads}], expected {expected}"
                raise fault("K701", message, hint="one a layer, or one for each of its KV heads")


def scales_for(
    key_amax: torch.Tensor,
    value_amax: torch.Tensor,
    dtype: torch.dtype,
    *,
    per_head: bool = True,
    room: float = ROOM,
) -> KVScales:
    """The scales with which `room` times the largest observed magnitudes, [num_layers, num_kv_heads], become
    the largest code of `dtype`; 1 for what was always 0. Not `per_head`: one a layer. Raises K701."""
    if dtype not in FLOAT8:
        raise fault("K701", f"{dtype} has no scales", hint="they are for 8-bit floats")
    if not 0 < room < math.inf:
        raise fault("K701", f"room is {room}, expected a finite number above 0")
    return KVScales(*(_scale(room * amax.float(), dtype, per_head) for amax in (key_amax, value_amax)))


def _scale(largest: torch.Tensor, dtype: torch.dtype, per_head: bool) -> torch.Tensor:
    if not per_head:
        largest = largest.amax(1, keepdim=True)
    if not bool(torch.isfinite(largest).all()):
        raise fault("K701", "an observed magnitude is not finite", hint="observe another text")
    scale = largest / torch.finfo(dtype).max
    return torch.where(scale > 0, scale, torch.ones_like(scale))
