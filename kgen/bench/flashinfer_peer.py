"""FlashInfer's decode over the pool's own pages, with and without tensor cores."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from kgen.bench.peers import Absent, Call, Peer, Work
from kgen.bench.pool import Pool

ORDERS: Mapping[str, str] = {"bshd": "NHD", "bhsd": "HND"}
"""Its names of our layouts."""
WORKSPACE = 256 << 20


def _prepare(work: Work, tensor_cores: bool) -> Call:
    """Plans for every table, made before anything is timed. Raises Absent where it cannot do the work."""
    pool = work.pool
    order = ORDERS.get(pool.layout.name)
    if order is None:
        raise Absent(f"it has no layout {pool.layout.name}")
    if pool.q.dtype == torch.float32:
        raise Absent("it has no f32")
    try:
        package: Any = importlib.import_module("flashinfer")
    except ImportError as error:
        raise Absent(f"flashinfer cannot be imported ({error})") from None
    workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=pool.q.device)
    plans = [_plan(package, workspace, order, work, table, tensor_cores) for table in pool.tables]
    out, caches = torch.empty_like(pool.q), (pool.k_cache, pool.v_cache)
    scale = None if pool.scale is None else float(pool.scale)
    scales = {} if scale is None else {"k_scale": scale, "v_scale": scale}

    def call(number: int) -> Tensor:
        plans[number].run(pool.q, caches, out=out, **scales)
        return out

    return call


def _plan(package: Any, workspace: Tensor, order: str, work: Work, table: Tensor, tensor_cores: bool) -> Any:
    shape = work.pool.shape
    starts, ids, last = page_lists(work.pool, table)
    plan = package.BatchDecodeWithPagedKVCacheWrapper(
        workspace,
        order,
        use_cuda_graph=True,
        use_tensor_cores=tensor_cores,
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
        q_data_type=work.pool.q.dtype,
        kv_data_type=work.pool.k_cache.dtype,
        sm_scale=work.scale,
    )
    return plan


def page_lists(pool: Pool, table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where each row's pages start [batch + 1], the pages, and the keys in each row's last page."""
    device, shape = table.device, pool.shape
    counts = torch.tensor(shape.row_pages, dtype=torch.int32)
    starts = torch.zeros(shape.batch + 1, dtype=torch.int32)
    starts[1:] = counts.cumsum(0)
    ids = [row[:count] for row, count in zip(table, shape.row_pages, strict=True)]
    last = torch.tensor(shape.lengths, dtype=torch.int32) - (counts - 1) * shape.block_size
    return starts.to(device), torch.cat(ids).contiguous(), last.to(device)


FLASHINFER: Mapping[str, Peer] = {
    "flashinfer": partial(_prepare, tensor_cores=False),
    "flashinfer_tc": partial(_prepare, tensor_cores=True),
}
