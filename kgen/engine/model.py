"""What an engine asks of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from kgen.runtime import KVShape

Attend = Callable[[int, Tensor, Tensor, Tensor, float], Tensor]
"""attend(layer, q, k, v, softmax_scale) of a step: keep k and v [rows, num_kv_heads, head_dim], and give the
attention [rows, num_heads, head_dim] of q [rows, num_heads, head_dim] to all that each row may see."""


class Model(Protocol):
    """A decoder-only network, all of whose layers attend causally to everything before.

    `kv`: what a token keeps; its dtype is that of the activations. `max_positions`: tokens a sequence may
    have. `end_tokens`: ids after which there is no more to say.
    """

    kv: KVShape
    vocab_size: int
    max_positions: int
    end_tokens: frozenset[int]
    device: torch.device

    def forward(self, tokens: Tensor, positions: Tensor, wanted: Tensor, attend: Attend) -> Tensor:
        """The logits [len(wanted), vocab_size] float32 of the rows in `wanted`. tokens, positions: [rows]
        int64, rows of any sequences; `attend` is called once for each layer, in order."""
        ...
