"""What others make of attention behind a prefix: torch on gathered keys and values, FlashInfer on pages."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from kgen.bench.extend import Extend

Call = Callable[[], Tensor]
"""-> O [batch * extend, heads, head_dim]"""


def sdpa(work: Extend) -> Call | None:
    """scaled_dot_product_attention with the mask written out, on contiguous keys and values."""
    q, k, v = _gathered(work)
    visible = torch.ones(work.shape.extend, work.shape.context, dtype=torch.bool, device=q.device)
    visible = visible.tril(work.shape.prefix)

    def call() -> Tensor:
        out = scaled_dot_product_attention(
            q, k, v, attn_mask=visible, scale=work.scale, enable_gqa=q.shape[1] != k.shape[1]
        )
        return out.transpose(1, 2).flatten(0, 1)

    return call


def sdpa_lower_right(work: Extend) -> Call | None:
    """The same with torch's own name for the shifted causal mask, heads repeated beforehand."""
    from torch.nn.attention.bias import causal_lower_right

    q, k, v = _gathered(work)
    k, v = (one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in (k, v))
    bias: Any = causal_lower_right(work.shape.extend, work.shape.context)

    def call() -> Tensor:
        out: Tensor = scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=work.scale)
        return out.transpose(1, 2).flatten(0, 1)

    return call


def flashinfer(work: Extend) -> Call | None:
    """FlashInfer's prefill over the same pages, planned beforehand; None where it is not installed, does not
    know the layout, or keys are of 8 bits."""
    order = {"bshd": "NHD", "bhsd": "HND"}.get(work.pool.layout.name)
    if order is None or not work.q.is_cuda or work.q.dtype == torch.float32 or work.pool.scale is not None:
        return None
    try:
        package: Any = importlib.import_module("flashinfer")
    except ImportError:
        return None
    shape, device = work.shape, work.q.device
    workspace = torch.empty(128 << 20, dtype=torch.uint8, device=device)
    plan = package.BatchPrefillWithPagedKVCacheWrapper(workspace, order)
    pages = work.pool.shape.pages
    starts = torch.arange(shape.batch + 1, dtype=torch.int32, device=device)
    last = torch.full_like(starts[1:], shape.context - (pages - 1) * shape.block_size)
    plan.plan(
        starts * shape.extend,
        starts * pages,
        work.pool.tables[0].reshape(-1),
        last,
        shape.heads,
        shape.kv_heads,
        shape.head_dim,
        shape.block_size,
        causal=True,
        sm_scale=work.scale,
        q_data_type=work.q.dtype,
    )
    caches = (work.pool.k_cache, work.pool.v_cache)

    def call() -> Tensor:
        out: Tensor = plan.run(work.q, caches)
        return out

    return call


def _gathered(work: Extend) -> tuple[Tensor, Tensor, Tensor]:
    """q [batch, heads, extend, head_dim], k and v [batch, kv_heads, context, head_dim]."""
    shape = work.shape
    q = work.q.view(shape.batch, shape.extend, shape.heads, shape.head_dim).transpose(1, 2).contiguous()
    return (q, *work.pool.contiguous(0))


PEERS: Mapping[str, Callable[[Extend], Call | None]] = {
    "sdpa": sdpa,
    "sdpa_lower_right": sdpa_lower_right,
    "flashinfer": flashinfer,
}
