"""The oracle: every operator in plain torch, float64 inside, written to be read.

Attention masks and scores reach it as callables over a `Point`, whose fields broadcast to
[num_heads, num_queries, num_keys]. LSE is the natural logarithm. A row that sees no key has O = 0
and LSE = -inf. Nothing is written in place: cache writes return a new cache. A cache of 8-bit floats comes
to attention as what it stands for (`kgen.quantise.dequantised`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kgen.diagnostics import Diagnostic, KgenError
from kgen.layout import Layout, TensorOrder
from kgen.quantise import quantised


@dataclass(frozen=True)
class Point:
    """One query against one key: absolute positions, query head, batch row, scaled product.

    `q` [1, Lq, 1] is i + Lk - Lq, so it is negative where Lq > Lk; `kv` [1, 1, Lk]; `head`
    [Hq, 1, 1]; `s` [Hq, Lq, Lk] is q.k * softmax_scale in natural units; `row` [1, Lq, 1] is the
    query's row among those of all sequences.
    """

    q: Tensor
    kv: Tensor
    head: Tensor
    batch: int
    s: Tensor
    row: Tensor


Mask = Callable[[Point], Tensor]
Score = Callable[[Point], Tensor]


def causal(at: Point) -> Tensor:
    """A query sees itself and what came before it."""
    return at.kv <= at.q


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    softmax_scale: float,
    *,
    mask: Mask | None = causal,
    score: Score | None = None,
    batch: int = 0,
    first_row: int = 0,
) -> tuple[Tensor, Tensor]:
    """Attention of one sequence: q [Lq, Hq, D] over k, v [Lk, Hkv, D], heads in groups. It is the
    `batch`-th, and its first query the `first_row`-th of all.

    Returns O [Lq, Hq, D] and LSE [Lq, Hq], both float64.
    """
    group = q.shape[1] // k.shape[1] if k.shape[1] else 1
    qs = q.double().transpose(0, 1)
    ks = k.double().repeat_interleave(group, dim=1).transpose(0, 1)
    vs = v.double().repeat_interleave(group, dim=1).transpose(0, 1)
    at = _points(qs @ ks.transpose(1, 2) * softmax_scale, batch, first_row)
    logits = at.s if score is None else score(at)
    if mask is not None:
        logits = logits.masked_fill(~mask(at), -torch.inf)
    weights, lse = _softmax(logits)
    return (weights @ vs).transpose(0, 1), lse.transpose(0, 1)


def paged_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    seq_lens: Tensor,
    softmax_scale: float,
    layout: Layout,
    *,
    mask: Mask | None = causal,
    score: Score | None = None,
) -> tuple[Tensor, Tensor]:
    """Decode: one query a row, q [B, Hq, D], over the pages block_table [B, pages] names.

    Returns O [B, Hq, D] and LSE [B, Hq], both float64. Table entries past a row's length are
    never looked at.
    """
    out = torch.zeros(q.shape, dtype=torch.float64)
    lse = torch.full(q.shape[:2], -torch.inf, dtype=torch.float64)
    for row, length in enumerate(seq_lens.tolist()):
        k, v = gather(k_cache, v_cache, layout, block_table[row], length)
        one, one_lse = attention(
            q[row : row + 1], k, v, softmax_scale, mask=mask, score=score, batch=row, first_row=row
        )
        out[row], lse[row] = one[0], one_lse[0]
    return out, lse


def extend_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    qo_indptr: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    seq_lens: Tensor,
    softmax_scale: float,
    layout: Layout,
    *,
    k_new: Tensor | None = None,
    v_new: Tensor | None = None,
    mask: Mask | None = causal,
    score: Score | None = None,
) -> tuple[Tensor, Tensor]:
    """Prefix prefill, and with few new tokens prefix decode: q [total_q, Hq, D] over the pages
    kv_indices names; the keys of new tokens come from k_new, v_new [total_q, Hkv, D] where given.

    Returns O [total_q, Hq, D] and LSE [total_q, Hq], both float64.
    """
    out = torch.zeros(q.shape, dtype=torch.float64)
    lse = torch.full(q.shape[:2], -torch.inf, dtype=torch.float64)
    for seq, length in enumerate(seq_lens.tolist()):
        begin, end = qo_indptr[seq : seq + 2].tolist()
        table = kv_indices[int(kv_indptr[seq]) : int(kv_indptr[seq + 1])]
        pooled = length if k_new is None else length - (end - begin)
        k, v = gather(k_cache, v_cache, layout, table, pooled)
        if k_new is not None and v_new is not None:
            k, v = torch.cat([k, k_new[begin:end]]), torch.cat([v, v_new[begin:end]])
        out[begin:end], lse[begin:end] = attention(
            q[begin:end], k, v, softmax_scale, mask=mask, score=score, batch=seq, first_row=begin
        )
    return out, lse


def gather(
    k_cache: Tensor, v_cache: Tensor, layout: Layout, table: Tensor, length: int
) -> tuple[Tensor, Tensor]:
    """The first `length` keys and values of one sequence, each [length, Hkv, D], in order."""
    k = gather_cache(k_cache, known_order(layout, "k"), table, length)
    return k, gather_cache(v_cache, known_order(layout, "v"), table, length)


def gather_cache(cache: Tensor, order: TensorOrder, table: Tensor, length: int) -> Tensor:
    """The first `length` rows of one sequence, [length, Hkv, D], reached through `table` [pages]."""
    block_size = cache.shape[order.axes.index("token")]
    used = table[: -(-length // block_size)].long()
    _check_ids(used, cache.shape[order.axes.index("block")], "block id")
    pages = canonical(cache.index_select(order.axes.index("block"), used), order)
    return pages.flatten(0, 1)[:length]


def canonical(cache: Tensor, order: TensorOrder) -> Tensor:
    """A cache of any order as [block, token, head, dim]."""
    names = ["block", "token", "head", "dim"] + (["inner"] if "inner" in order.axes else [])
    turned = cache.permute([order.axes.index(name) for name in names])
    return turned.flatten(3)


def from_canonical(pages: Tensor, order: TensorOrder) -> Tensor:
    """The inverse of `canonical`: [block, token, head, dim] in the cache's own order."""
    names = ["block", "token", "head", "dim"]
    if "inner" in order.axes:
        pages = pages.reshape(*pages.shape[:3], -1, order.width(pages.element_size()))
        names.append("inner")
    return pages.permute([names.index(axis) for axis in order.axes]).contiguous()


def merge_states(states: Tensor, states_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Exact merge of partial results over disjoint keys.

    states [rows, S, heads, D] and states_lse [rows, S, heads] (natural log); returns O
    [rows, heads, D] and LSE [rows, heads], float64. A state with LSE -inf counts for nothing,
    whatever its values are.
    """
    weights, lse = _softmax(states_lse.double().transpose(1, 2))
    values = states.double().transpose(1, 2)
    values = values.masked_fill((states_lse == -torch.inf).transpose(1, 2).unsqueeze(-1), 0.0)
    return (weights.unsqueeze(-1) * values).sum(dim=2), lse


def reshape_and_cache(
    key: Tensor,
    value: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slot_mapping: Tensor,
    layout: Layout,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The caches after key, value [tokens, Hkv, D] went to their slots; slot -1 is skipped. The scales, f32,
    one element or [Hkv], are those of caches of 8-bit floats."""
    written = slot_mapping != -1
    slots = slot_mapping[written].long()
    caches = []
    for new, cache, which, scale in ((key, k_cache, "k", k_scale), (value, v_cache, "v", v_scale)):
        order = known_order(layout, which)
        pages = canonical(cache, order).clone(memory_format=torch.contiguous_format)
        rows = pages.view(-1, *pages.shape[2:])
        _check_ids(slots, rows.shape[0], "slot")
        if scale is not None:
            new = quantised(new, scale.reshape(-1, 1), cache.dtype)
        rows[slots] = new[written].to(rows.dtype)
        caches.append(from_canonical(pages, order))
    return caches[0], caches[1]


def copy_blocks(cache: Tensor, block_mapping: Tensor) -> Tensor:
    """The cache [blocks, ...] after every (source, destination) pair was copied."""
    return swap_blocks(cache, cache, block_mapping)


def swap_blocks(source: Tensor, destination: Tensor, block_mapping: Tensor) -> Tensor:
    """`destination` [blocks, ...] after every (source, destination) pair was copied into it."""
    pairs = block_mapping.long()
    _check_ids(pairs[:, 0], source.shape[0], "source block id")
    _check_ids(pairs[:, 1], destination.shape[0], "destination block id")
    result = destination.clone()
    result[pairs[:, 1]] = source[pairs[:, 0]]
    return result


def _points(scaled: Tensor, batch: int, first_row: int) -> Point:
    heads, queries, keys = scaled.shape
    return Point(
        q=(torch.arange(queries) + keys - queries).view(1, queries, 1),
        kv=torch.arange(keys).view(1, 1, keys),
        head=torch.arange(heads).view(heads, 1, 1),
        batch=batch,
        s=scaled,
        row=(torch.arange(queries) + first_row).view(1, queries, 1),
    )


def _softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and natural LSE over the last axis; no weight anywhere in a row of -inf."""
    lse = torch.logsumexp(logits, dim=-1)
    top = lse.masked_fill(lse == -torch.inf, 0.0).unsqueeze(-1)
    return torch.exp(logits - top), lse


def known_order(layout: Layout, tensor: str) -> TensorOrder:
    """The order of the k or v cache. Raises KgenError (K590) where the layout does not know it."""
    order = layout.order(tensor)
    if order is None:
        message = f"the order of the {tensor} cache in layout '{layout.name}' is not known"
        raise KgenError(Diagnostic("K590", message, hint=layout.because or None))
    return order


def _check_ids(ids: Tensor, count: int, what: str) -> None:
    wrong = ids[(ids < 0) | (ids >= count)]
    if wrong.numel():
        message = f"{what} {int(wrong[0])} is outside the pool of {count}"
        raise KgenError(Diagnostic("K591", message, hint=f"use 0 to {count - 1}"))
