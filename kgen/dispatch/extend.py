"""Attention of new tokens behind a prefix, over ragged batches: the public forms of one operator.

The batch (`kgen.metadata`) is built and checked on the host; what the kernel gets are its arrays as int32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from kgen.diagnostics import KgenError
from kgen.dispatch.calls import CALLS, launch_variant, through_torch
from kgen.dispatch.errors import fault
from kgen.metadata import POOL, SEPARATE, ExtendBatch

NAME = "extend_attention"
MAX_DECODE = 8
"""The most new tokens of a sequence that still count as decoding."""


def extend_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    batch: ExtendBatch,
    *,
    k_new: Tensor | None = None,
    v_new: Tensor | None = None,
    softmax_scale: float | None = None,
    layout: str = "bshd",
    out: Tensor | None = None,
    lse: Tensor | None = None,
    return_lse: bool = False,
    variant: str | None = None,
    variant_args: Mapping[str, Any] | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    arch: str | None = None,
) -> Any:
    """Attention of the new tokens of a ragged batch to a prefix and to each other.

    q: [total_q, num_heads, head_dim], f32, f16 or bf16; the rows of sequence b from batch.qo_indptr[b] on.
    k_cache, v_cache: pages in `layout`'s order, of batch.block_size tokens, like q or 8-bit floats. Token
        slots may also lie evenly in larger pages of bshd, or as [num_slots, num_kv_heads, head_dim]: they are
        read without a copy.
    batch: where rows and keys are (`kgen.metadata`). A row's query stands at seq_len - extend_len + i; rows
        that see no key get out = 0 and lse = -inf, also where there are more queries than keys. Index
        arrays of int64 are converted to int32, which they must fit.
    k_new, v_new: [total_q, num_kv_heads, head_dim] like q; given with a SEPARATE batch, and only then.
    softmax_scale: factor of q.k; 1/sqrt(head_dim) where None.
    out: like q; allocated where None. lse: [total_q, num_heads] f32, natural logarithm; written where given
        or `return_lse`.
    variant, variant_args: a mask/score variant other than causal, and its arguments by name: numbers,
        [num_heads] f32, [num_seqs], [total_q] or [num_seqs, keys] i32, ...
    k_scale, v_scale: with 8-bit caches, and only then: what their values (not those of k_new and v_new) are
        multiples of, above 0; f32, one element or [num_kv_heads].
    arch: a target other than the default one.

    Returns out, or (out, lse) with `return_lse`. Raises KgenError (K51x, K52x, K531, K532, K537, K538, K519).
    """
    if not _fits(q, batch, k_new, v_new):
        raise _misfit(q, batch, k_new, v_new)
    if batch.block_size == 1 and layout == "bshd":
        k_cache, v_cache = _slots(k_cache), _slots(v_cache)
    if out is None:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    if return_lse and lse is None:
        lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    rows, entries, indices, seq_lens = batch.qo_indptr, batch.kv_indptr, batch.kv_indices, batch.seq_lens
    if is_dynamo_compiling() or not batch.is_int32:
        rows, entries, indices, seq_lens = rows.int(), entries.int(), indices.int(), seq_lens.int()
    arguments = (
        out, lse, q, k_cache, v_cache, k_new, v_new, rows, entries, indices, seq_lens, k_scale, v_scale,
        softmax_scale, batch.max_extend_len, batch.max_seq_len, batch.block_size, layout, variant, arch,
    )  # fmt: skip
    if variant is not None or variant_args:
        launch_variant(NAME, variant, variant_args, *arguments)
    elif is_dynamo_compiling() or not CALLS[NAME](*arguments):
        through_torch(NAME, *arguments)
    return (out, lse) if return_lse else out


def prefix_decode(q: Tensor, k_cache: Tensor, v_cache: Tensor, batch: ExtendBatch, **options: Any) -> Any:
    """`extend_attention` of at most 8 new tokens a sequence: decoding, or checking drafted tokens.

    Arguments, results and errors are those of `extend_attention`; K515 where max_extend_len is above 8.
    """
    if isinstance(batch, ExtendBatch) and batch.max_extend_len > MAX_DECODE:
        message = (
            f"prefix_decode takes at most {MAX_DECODE} new tokens a sequence, not {batch.max_extend_len}"
        )
        raise fault("K515", message, "use extend_attention")
    return extend_attention(q, k_cache, v_cache, batch, **options)


def _fits(q: Tensor, batch: ExtendBatch, k_new: Tensor | None, v_new: Tensor | None) -> bool:
    """Whether the tensors are those the batch speaks of."""
    if not isinstance(batch, ExtendBatch) or not isinstance(q, Tensor) or q.shape[0] != batch.total_q:
        return False
    if batch.convention == SEPARATE:
        return k_new is not None and v_new is not None
    return k_new is None and v_new is None


def _misfit(q: object, batch: object, k_new: Tensor | None, v_new: Tensor | None) -> KgenError:
    """Why they are not (K510, K512)."""
    if not isinstance(q, Tensor):
        return fault("K510", f"{NAME}: q must be a tensor, found {type(q).__name__}")
    if not isinstance(batch, ExtendBatch):
        hint = "make one with kgen.metadata.from_arrays, from_slots or from_block_table"
        return fault("K510", f"{NAME}: batch must be an ExtendBatch, found {type(batch).__name__}", hint)
    given = [name for name, new in (("k_new", k_new), ("v_new", v_new)) if new is not None]
    if batch.convention == SEPARATE and len(given) < 2:
        message = f"{NAME}: a batch of convention '{SEPARATE}' needs k_new and v_new"
        return fault("K510", message, "they are the rows of its new tokens, like those of q")
    if batch.convention == POOL and given:
        message = f"{NAME}: {' and '.join(given)} given, but the batch says that every key is in the pool"
        return fault("K510", message, f"make the batch with convention={SEPARATE!r}, or leave them out")
    return fault("K512", f"{NAME}: q has {q.shape[0]} rows; the batch has {batch.total_q}")


def _slots(cache: Tensor) -> Tensor:
    """A bshd pool as pages of one token, in the same memory; as it is where that cannot be, for binding to
    say what is wrong."""
    if not isinstance(cache, Tensor):
        return cache
    if cache.dim() == 3:
        return cache.unsqueeze(1)
    if cache.dim() == 4 and cache.stride(0) == cache.shape[1] * cache.stride(1):
        return cache.flatten(0, 1).unsqueeze(1)
    return cache
