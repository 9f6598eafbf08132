"""Calls on inputs of a few hundred bytes, so that what they cost is the way to the kernel.

Everything is given, so that nothing is allocated. Some calls are the same each time. Of others lengths grow,
as in a decode loop, or each has another batch than the one before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kgen import ops
from kgen.metadata import ExtendBatch, from_block_table

Tiny = Callable[[], object]
FIRST_LENGTH = 1000
"""Where lengths start to grow from, past those that short rows are decided at."""
HEAD_DIM, BLOCK, PAGES = 64, 16, 4
BATCHES = 64


@dataclass(frozen=True)
class _Tensors:
    """Rows of one head: q and out [rows, 1, HEAD_DIM], lse [rows, 1], pages [rows, 1] and lengths [rows] of
    decode; two caches of PAGES pages."""

    q: Tensor
    out: Tensor
    lse: Tensor
    pages: Tensor
    lengths: Tensor
    caches: tuple[Tensor, Tensor]

    def first(self, rows: int) -> _Tensors:
        """The first rows, in the same memory."""
        cut = slice(rows)
        return replace(
            self,
            q=self.q[cut],
            out=self.out[cut],
            lse=self.lse[cut],
            pages=self.pages[cut],
            lengths=self.lengths[cut],
        )


def tiny_calls(device: str = "cpu") -> Mapping[str, Tiny]:
    """A call of each operator by name, of attention in several forms, and for comparison of one of torch."""
    with torch.device(device):
        made = _tensors(torch.float32 if device == "cpu" else torch.bfloat16)
        one = made.first(1)
        return {
            **_decode(one, () if device == "cpu" else ("even",)),
            **_extend(made),
            **_others(one),
            "torch.add": lambda: torch.add(one.q, one.q, out=one.out),
        }


def _tensors(dtype: torch.dtype) -> _Tensors:
    rows = PAGES * BLOCK
    q = torch.randn(rows, 1, HEAD_DIM).to(dtype)
    caches = [torch.randn(PAGES, BLOCK, 1, HEAD_DIM).to(dtype) for _ in "kv"]
    pages, lengths = torch.zeros(rows, 1, dtype=torch.int32), torch.ones(rows, dtype=torch.int32)
    return _Tensors(q, torch.empty_like(q), torch.empty(rows, 1), pages, lengths, (caches[0], caches[1]))


def _decode(one: _Tensors, more: Sequence[str]) -> Mapping[str, Tiny]:
    calls: dict[str, Tiny] = {"paged_attention of no rows": _attend(one.first(0), "single_pass")}
    for policy in ("single_pass", "split", *more):
        calls[f"paged_attention, {policy}"] = _attend(one, policy)
        calls[f"paged_attention, {policy}, growing"] = _attend(one, policy, growing=True)
    return calls


def _attend(made: _Tensors, policy: str, growing: bool = False) -> Tiny:
    lengths = itertools.count(FIRST_LENGTH, int(growing))
    k_cache, v_cache = made.caches
    return lambda: ops.paged_attention(
        made.q,
        k_cache,
        v_cache,
        made.pages,
        made.lengths,
        max_seq_len=next(lengths),
        softmax_scale=0.125,
        layout="bshd",
        policy=policy,
        out=made.out,
        lse=made.lse,
    )


def _extend(made: _Tensors) -> Mapping[str, Tiny]:
    one = made.first(1)
    batch = _batch(1, 1)
    longer = [replace(batch, max_extend_len=n, max_seq_len=FIRST_LENGTH + n) for n in range(1, BATCHES)]
    other = [(made.first(rows), _batch(rows, 2 + rows % (PAGES - 1))) for rows in range(2, BLOCK)]
    return {
        "extend_attention": _append([(one, batch)]),
        "extend_attention, growing": _append([(one, each) for each in longer]),
        "extend_attention, other batches": _append(other),
    }


def _batch(rows: int, pages: int) -> ExtendBatch:
    """`rows` new tokens, the last of as many as the pages hold."""
    table = torch.arange(pages, dtype=torch.int32)[None]
    length, new = (torch.tensor([n], dtype=torch.int32) for n in (pages * BLOCK, rows))
    return from_block_table(
        table, length, new, BLOCK, max_extend_len=rows, max_seq_len=pages * BLOCK, total_q=rows
    )


def _append(batches: Sequence[tuple[_Tensors, ExtendBatch]]) -> Tiny:
    turns = itertools.cycle(batches)

    def append() -> object:
        made, batch = next(turns)
        k_cache, v_cache = made.caches
        return ops.extend_attention(
            made.q, k_cache, v_cache, batch, softmax_scale=0.125, layout="bshd", out=made.out, lse=made.lse
        )

    return append


def _others(one: _Tensors) -> Mapping[str, Tiny]:
    cache, other = one.caches
    states, states_lse = torch.randn(1, 2, 1, HEAD_DIM).to(one.q.dtype), torch.randn(1, 2, 1)
    slot, pair = torch.zeros(1, dtype=torch.int64), torch.tensor([[0, 1]])
    return {
        "merge_states": lambda: ops.merge_states(states, states_lse, out=one.out, lse=one.lse),
        "reshape_and_cache": lambda: ops.reshape_and_cache(one.q, one.q, cache, other, slot, layout="bshd"),
        "copy_blocks": lambda: ops.copy_blocks(cache, pair),
        "swap_blocks": lambda: ops.swap_blocks(cache, other, pair),
    }
