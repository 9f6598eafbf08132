"""A step's plan as the arrays of one forward pass: rows of all prefills, then a row for each decode."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from kgen.engine.kernels import Kernels
from kgen.engine.memory import Memory
from kgen.metadata import ExtendBatch, from_arrays
from kgen.runtime import DecodeRow, KVPool, PrefillChunk, StepPlan, padded


@dataclass(frozen=True)
class Decodes:
    """The decode rows of a step: block_table [rows, pages] and seq_lens [rows], both int32, and a bound of
    the latter: a whole number of pages, so that a call's plan is good for as many steps as a page has
    tokens."""

    block_table: Tensor
    seq_lens: Tensor
    max_seq_len: int


@dataclass(frozen=True)
class StepBatch:
    """tokens, positions, slots: [rows] int64. wanted: [sampled] int64, the rows whose logits are wanted, in
    the order of `StepPlan.sampled`. The first `num_prefill_rows` belong to `prefill`, the others to
    `decodes`."""

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    wanted: Tensor
    num_prefill_rows: int
    prefill: ExtendBatch | None
    decodes: Decodes | None


def pack(plan: StepPlan, kv: KVPool, device: torch.device) -> StepBatch:
    """The arrays of a plan that has rows, on the device."""
    chunks, decodes = plan.prefills, plan.decodes
    positions = [np.arange(chunk.start, chunk.seq_len) for chunk in chunks]
    lengths = np.array([len(chunk.tokens) for chunk in chunks], np.int64)
    rows = int(lengths.sum())
    last = np.cumsum(lengths) - 1
    sampling = np.array([chunk.samples for chunk in chunks], bool)
    return StepBatch(
        _joined([chunk.tokens for chunk in chunks], [row.token for row in decodes]).to(device),
        _joined(positions, [row.position for row in decodes]).to(device),
        _joined([chunk.slots for chunk in chunks], [row.slot for row in decodes]).to(device),
        _joined([last[sampling]], list(range(rows, rows + len(decodes)))).to(device),
        rows,
        _prefill(chunks, kv).to(device) if chunks else None,
        _decodes(decodes, kv, device) if decodes else None,
    )


class StepAttention:
    """`Attend` for one step: rows go to their pages, then each attends to those of its sequence."""

    def __init__(self, memory: Memory, kernels: Kernels, batch: StepBatch) -> None:
        self._memory, self._kernels, self._batch = memory, kernels, batch

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        kv, batch, scales = self._memory.kv, self._batch, self._memory.scales(layer)
        # Kernels take 8-bit KV beside queries of any type, else both of one type.
        dtype = q.dtype if scales else kv.kv.dtype
        pages = (kv.keys[layer], kv.values[layer])
        self._kernels.write(k.to(dtype), v.to(dtype), *pages, batch.slots, kv.layout, scales)
        found, rows = [], q.to(dtype)
        if batch.prefill is not None:
            part = rows[: batch.num_prefill_rows]
            found.append(self._kernels.extend(part, *pages, batch.prefill, scale, kv.layout, scales))
        if (decodes := batch.decodes) is not None:
            part = rows[batch.num_prefill_rows :]
            k_cache, v_cache = pages
            found.append(
                self._kernels.decode(
                    part,
                    k_cache,
                    v_cache,
                    decodes.block_table,
                    decodes.seq_lens,
                    decodes.max_seq_len,
                    scale,
                    kv.layout,
                    scales,
                )
            )
        return (found[0] if len(found) == 1 else torch.cat(found)).to(q.dtype)


def _joined(chunks: list[np.ndarray], rows: list[int]) -> Tensor:
    return torch.from_numpy(np.concatenate([*chunks, np.array(rows, np.int64)]).astype(np.int64, copy=False))


def _prefill(chunks: tuple[PrefillChunk, ...], kv: KVPool) -> ExtendBatch:
    return from_arrays(
        _running([len(chunk.tokens) for chunk in chunks]),
        _running([len(chunk.pages) for chunk in chunks]),
        torch.from_numpy(np.concatenate([chunk.pages for chunk in chunks])),
        seq_lens=torch.tensor([chunk.seq_len for chunk in chunks], dtype=torch.int32),
        block_size=kv.block_size,
        num_blocks=kv.num_blocks,
    )


def _running(counts: list[int]) -> Tensor:
    return torch.tensor([0, *accumulate(counts)], dtype=torch.int32)


def _decodes(rows: tuple[DecodeRow, ...], kv: KVPool, device: torch.device) -> Decodes:
    table = padded([row.pages for row in rows])
    lengths = torch.tensor([row.seq_len for row in rows], dtype=torch.int32)
    return Decodes(table.to(device), lengths.to(device), table.shape[1] * kv.block_size)
