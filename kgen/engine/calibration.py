"""Scales of an 8-bit KV cache from what a model keeps of a text.

The text runs through the model once, chunk by chunk without pages; its keys and values are looked at as the
model hands them over, in its own type.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kgen.engine.checks import check_model
from kgen.engine.errors import fault
from kgen.engine.model import Model
from kgen.runtime import KVScales, scales_for
from kgen.runtime.scales import ROOM


@torch.inference_mode()
def calibrate(
    model: Model,
    texts: Sequence[Sequence[int]],
    dtype: torch.dtype,
    *,
    per_head: bool = True,
    room: float = ROOM,
) -> KVScales:
    """The scales with which `room` times the largest key and value of each KV head (or of each layer) over
    these token ids become the largest code of `dtype`; what is larger later is cut there. Raises K802
    without a token, K701 for a dtype that has no scales."""
    check_model(model)
    if not any(len(text) for text in texts):
        raise fault("K802", "there is no text to calibrate with", "give it some tokens")
    largest = _Largest(model)
    for text in texts:
        ids = torch.as_tensor(list(text)[: model.max_positions], dtype=torch.int64, device=model.device)
        if len(ids):
            model.forward(ids, torch.arange(len(ids), device=model.device), ids[:0], largest.attend)
    return scales_for(largest.keys.cpu(), largest.values.cpu(), dtype, per_head=per_head, room=room)


class _Largest:
    """The largest magnitudes seen, by layer and KV head."""

    def __init__(self, model: Model) -> None:
        kv = model.kv
        self.keys = torch.zeros(kv.num_layers, kv.num_kv_heads, device=model.device)
        self.values = torch.zeros_like(self.keys)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """Plain causal attention of a whole text, and a look at its keys and values."""
        for largest, new in ((self.keys, k), (self.values, v)):
            torch.maximum(largest[layer], new.abs().amax((0, 2)).float(), out=largest[layer])
        query, key, value = (each.transpose(0, 1)[None] for each in (q, k, v))
        out = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=True)
        return out[0].transpose(0, 1)
