"""The public operators: torch tensors in, results out. Thin; the specs hold the rules.

Common to all: tensors keep their strides (the last axis must be contiguous); nothing is written
where a call raises; a variant that is not built is built on first use, unless KGEN_JIT=0. Results
carry no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from kgen.dispatch.calls import CALLS, launch_variant, through_torch
from kgen.dispatch.errors import fault


def paged_attention(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    seq_lens: Tensor,
    *,
    max_seq_len: int,
    softmax_scale: float | None = None,
    layout: str = "bshd",
    out: Tensor | None = None,
    lse: Tensor | None = None,
    return_lse: bool = False,
    partition_size: int | None = None,
    reuse_kv_times: int | None = None,
    policy: str | None = None,
    variant: str | None = None,
    variant_args: Mapping[str, Any] | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    arch: str | None = None,
) -> Any:
    """Decode attention: one query token per sequence over a paged KV cache.

    q: [num_seqs, num_heads, head_dim], f32, f16 or bf16.
    k_cache, v_cache: pages in `layout`'s order (bshd: [num_blocks, block_size, num_kv_heads,
        head_dim]), like q or 8-bit floats; num_heads is a multiple of num_kv_heads.
    block_table: [num_seqs, max_pages] i32; page ids of each sequence, those past its length unread.
    seq_lens: [num_seqs] i32, in tokens; a sequence of 0 gets out = 0 and lse = -inf.
    max_seq_len: an upper bound of seq_lens known to the host, in tokens.
    softmax_scale: factor of q.k; 1/sqrt(head_dim) where None.
    out: [num_seqs, num_heads, head_dim] like q; allocated where None. Must not overlap the inputs.
    lse: [num_seqs, num_heads] f32, natural logarithm; written where given or `return_lse`.
    partition_size: tokens in a part, 0 for one pass, -1 for even shares of all rows (on a GPU);
        PA_PARTITION_SIZE, then the policy where None.
    reuse_kv_times: query heads served by one read of a KV head; the policy where None.
    policy: how partition_size is chosen: `vllm`, `balanced`, `split`, `single_pass`, `even` or `auto`, the
        default: `vllm` on a CPU, and on a GPU `even` but for short rows and for one sequence alone.
    variant: a mask/score variant other than the default one; the query stands at seq_len - 1.
    variant_args: its arguments by name: numbers, [num_heads] f32, [num_seqs] i32, ...
    k_scale, v_scale: with 8-bit caches, and only then: what their values are multiples of, above 0; f32, one
        element or [num_kv_heads].
    arch: a target other than the default one.

    Returns out, or (out, lse) with `return_lse`. Raises KgenError (K51x, K52x, K531, K532, K519).
    """
    if out is None:
        out = _empty(q)
    if return_lse and lse is None:
        lse = _empty_rows(q)
    if variant is not None or variant_args:
        launch_variant(
            "paged_attention", variant, variant_args,
            out, lse, q, k_cache, v_cache, block_table, seq_lens, k_scale, v_scale,
            softmax_scale, max_seq_len, layout, partition_size, reuse_kv_times, policy, variant, arch,
        )  # fmt: skip
        return (out, lse) if return_lse else out
    # Spelt out twice: packing the arguments into a tuple first costs a fifth of a small call.
    if is_dynamo_compiling() or not CALLS["paged_attention"](
        out, lse, q, k_cache, v_cache, block_table, seq_lens, k_scale, v_scale,
        softmax_scale, max_seq_len, layout, partition_size, reuse_kv_times, policy, variant, arch,
    ):  # fmt: skip
        through_torch(
            "paged_attention",
            out, lse, q, k_cache, v_cache, block_table, seq_lens, k_scale, v_scale,
            softmax_scale, max_seq_len, layout, partition_size, reuse_kv_times, policy, variant, arch,
        )  # fmt: skip
    return (out, lse) if return_lse else out


def merge_states(
    states: Tensor,
    states_lse: Tensor,
    *,
    out: Tensor | None = None,
    lse: Tensor | None = None,
    arch: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Merge partial attention results over disjoint keys, exactly.

    states: [num_rows, num_states, num_heads, head_dim], f32, f16 or bf16; at least one state.
    states_lse: [num_rows, num_states, num_heads] f32, natural logarithm; a state of -inf counts
        for nothing, whatever its values.
    out: [num_rows, num_heads, head_dim] like states; lse: [num_rows, num_heads] f32; allocated
        where None.

    Returns (out, lse): out = 0 and lse = -inf where every state is empty. Raises KgenError.
    """
    if out is None:
        out = _empty_state(states)
    if lse is None:
        lse = torch.empty(out.shape[:-1], dtype=torch.float32, device=out.device)
    if is_dynamo_compiling() or not CALLS["merge_states"](out, lse, states, states_lse, arch):
        through_torch("merge_states", out, lse, states, states_lse, arch)
    return out, lse


def merge_state(a: Tensor, a_lse: Tensor, b: Tensor, b_lse: Tensor) -> tuple[Tensor, Tensor]:
    """`merge_states` of two: a, b [num_rows, num_heads, head_dim]; a_lse, b_lse [num_rows, num_heads]."""
    return merge_states(torch.stack((a, b), dim=1), torch.stack((a_lse, b_lse), dim=1))


def reshape_and_cache(
    key: Tensor,
    value: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slot_mapping: Tensor,
    *,
    layout: str = "bshd",
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    arch: str | None = None,
) -> None:
    """Write new keys and values into their slots of a paged cache.

    key, value: [num_tokens, num_kv_heads, head_dim], f32, f16 or bf16.
    k_cache, v_cache: pages in `layout`'s order, written in place; of the dtype of key and value, or 8-bit
        floats: then each value is divided by its scale and rounded to the nearest code, ties to even. What is
        too large, infinities too, becomes the largest finite value; NaN stays NaN.
    slot_mapping: [num_tokens] i64; slot s is token s % block_size of page s // block_size, and -1
        marks a padding token, which is skipped.
    k_scale, v_scale: with 8-bit caches, and only then: f32 above 0, one element or [num_kv_heads].

    Raises KgenError (K51x, K52x; K533 for a slot outside the pool, K519 for a scale) before the first write.
    """
    if is_dynamo_compiling() or not CALLS["reshape_and_cache"](
        key, value, k_cache, v_cache, slot_mapping, k_scale, v_scale, layout, arch
    ):
        through_torch(
            "reshape_and_cache", key, value, k_cache, v_cache, slot_mapping, k_scale, v_scale, layout, arch
        )


def copy_blocks(caches: Tensor | Sequence[Tensor], block_mapping: Tensor, *, arch: str | None = None) -> None:
    """Copy whole pages inside caches, as copy-on-write asks.

    caches: one cache or several (of all layers, of keys and of values) with the same number of
        pages; axis 0 counts pages, and a page is contiguous. Any dtype.
    block_mapping: [num_pairs, 2] i64, rows (source, destination). A destination may be named
        once and must not be a source.

    Raises KgenError (K51x; K531, K534) before the first write.
    """
    found = [caches] if isinstance(caches, Tensor) else list(caches)
    _same_pages("caches", found)
    for cache in found:
        if is_dynamo_compiling() or not CALLS["copy_blocks"](cache, block_mapping, arch):
            through_torch("copy_blocks", cache, block_mapping, arch)


def swap_blocks(
    source: Tensor | Sequence[Tensor],
    destination: Tensor | Sequence[Tensor],
    block_mapping: Tensor,
    *,
    arch: str | None = None,
) -> None:
    """Copy whole pages from one cache to another, as swapping out and in does.

    source, destination: two caches, or two lists of caches taken pairwise; axis 0 counts pages, a
        page is contiguous and of one size in both. They must not share memory.
    block_mapping: [num_pairs, 2] i64, rows (page of source, page of destination).

    Raises KgenError (K51x; K531, K534) before the first write.
    """
    sources = [source] if isinstance(source, Tensor) else list(source)
    destinations = [destination] if isinstance(destination, Tensor) else list(destination)
    if len(sources) != len(destinations):
        raise fault("K512", f"swap_blocks: {len(sources)} sources for {len(destinations)} destinations")
    _same_pages("source", sources)
    _same_pages("destination", destinations)
    for one, other in zip(sources, destinations, strict=True):
        if one is other:
            raise fault("K512", "swap_blocks: source and destination are one tensor", "use copy_blocks")
        if is_dynamo_compiling() or not CALLS["swap_blocks"](one, other, block_mapping, arch):
            through_torch("swap_blocks", one, other, block_mapping, arch)


def _same_pages(name: str, caches: Sequence[Tensor]) -> None:
    """One faulty id must stop a call before its first cache is written."""
    if len(caches) > 1 and len({cache.shape[:1] for cache in caches}) > 1:
        raise fault("K512", f"{name} differ in their number of pages: {[c.shape[0] for c in caches]}")


def _empty(q: Tensor) -> Tensor:
    if not isinstance(q, Tensor):
        raise fault("K510", f"paged_attention: q must be a tensor, found {type(q).__name__}")
    return torch.empty_like(q, memory_format=torch.contiguous_format)


def _empty_rows(q: Tensor) -> Tensor:
    return torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)


def _empty_state(states: Tensor) -> Tensor:
    if not isinstance(states, Tensor) or states.dim() != 4:
        raise fault("K512", "merge_states: states must have the axes [row, state, head, dim]")
    return states.new_empty((states.shape[0], *states.shape[2:]))
