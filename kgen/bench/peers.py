"""What torch does with the same work, on keys and values already gathered into one piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

Peer = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""(q [B, Hq, D], k [B, Hkv, L, D], v, softmax_scale) -> O [B, Hq, D]"""


def sdpa(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float) -> Tensor:
    """One query row a head; torch pairs heads with their KV head."""
    out: Tensor = scaled_dot_product_attention(q.unsqueeze(2), k, v, scale=softmax_scale, enable_gqa=True)
    return out.squeeze(2)


def sdpa_folded(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float) -> Tensor:
    """The heads of a group as the rows of one, so that keys are read once."""
    rows = q.reshape(*k.shape[:2], -1, q.shape[-1])
    out: Tensor = scaled_dot_product_attention(rows, k, v, scale=softmax_scale)
    return out.reshape(q.shape)


def matmuls(q: Tensor, k: Tensor, v: Tensor, softmax_scale: float) -> Tensor:
    """Two batched products with a softmax between."""
    rows = q.reshape(*k.shape[:2], -1, q.shape[-1]) * softmax_scale
    weights = torch.softmax(rows @ k.transpose(2, 3), dim=-1)
    return (weights @ v).reshape(q.shape)


PEERS: Mapping[str, Peer] = {"sdpa": sdpa, "sdpa_folded": sdpa_folded, "matmuls": matmuls}
