"""What others do with the same work: torch on keys and values already gathered into one piece, and
engines' own kernels on the pages where they are installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from kgen.bench.pool import Pool

Peer = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""(q [B, Hq, D], k [B, Hkv, L, D], v, softmax_scale) -> O [B, Hq, D]"""

Paged = Callable[[int], Tensor]
"""(number of a table) -> O [B, Hq, D]"""


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

_FLASHINFER_LAYOUTS = {"bshd": "NHD", "bhsd": "HND"}
_FLASHINFER_WORKSPACE = 128 << 20


def flashinfer(pool: Pool, softmax_scale: float) -> Paged | None:
    """FlashInfer's decode over the pool's own pages, planned beforehand; None where it is not installed
    or knows neither the layout nor the dtype."""
    order = _FLASHINFER_LAYOUTS.get(pool.layout.name)
    if order is None or pool.q.dtype == torch.float32 or not pool.q.is_cuda:
        return None
    try:
        package: Any = importlib.import_module("flashinfer")
    except ImportError:
        return None
    workspace = torch.empty(_FLASHINFER_WORKSPACE, dtype=torch.uint8, device=pool.q.device)
    plans = [_flashinfer_plan(package, workspace, order, pool, table, softmax_scale) for table in pool.tables]
    out, caches = torch.empty_like(pool.q), (pool.k_cache, pool.v_cache)

    def run(number: int) -> Tensor:
        plans[number].run(pool.q, caches, out=out)
        return out

    return run


def _flashinfer_plan(
    package: Any, workspace: Tensor, order: str, pool: Pool, table: Tensor, softmax_scale: float
) -> Any:
    shape, device = pool.shape, pool.q.device
    starts = torch.arange(shape.batch + 1, dtype=torch.int32, device=device) * shape.pages
    last = torch.full_like(starts[1:], shape.context - (shape.pages - 1) * shape.block_size)
    ids = table.reshape(-1).contiguous()
    plan = package.BatchDecodeWithPagedKVCacheWrapper(
        workspace,
        order,
        use_cuda_graph=True,
        use_tensor_cores=True,
        paged_kv_indptr_buffer=torch.empty_like(starts),
        paged_kv_indices_buffer=torch.empty_like(ids),
        paged_kv_last_page_len_buffer=torch.empty_like(last),
    )
    plan.plan(
        starts,
        ids,
        last,
        shape.heads,
        shape.kv_heads,
        shape.head_dim,
        shape.block_size,
        q_data_type=pool.q.dtype,
        kv_data_type=pool.k_cache.dtype,
        sm_scale=softmax_scale,
    )
    return plan


PAGED_PEERS: Mapping[str, Callable[[Pool, float], Paged | None]] = {"flashinfer": flashinfer}
