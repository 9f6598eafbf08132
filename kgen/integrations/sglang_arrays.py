"""Extend attention with the arrays and names of SGLang's kernel, without SGLang.

Its pool is token slots [num_slots, num_kv_heads, head_dim], read in place; kv_indptr counts prefixes only,
and the new keys and values are tensors of their own.
"""

from __future__ import annotations

from torch import Tensor

from kgen import ops
from kgen.integrations.switches import refuse, variant_for
from kgen.metadata import SEPARATE, from_arrays

NAME = "extend_attention_fwd"


def extend_attention_fwd(
    q_extend: Tensor,
    k_extend: Tensor,
    v_extend: Tensor,
    o_extend: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    qo_indptr: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    custom_mask: Tensor | None = None,
    is_causal: bool = True,
    mask_indptr: Tensor | None = None,
    max_len_extend: int | None = None,
    sm_scale: float | None = None,
    logit_cap: float = 0.0,
    *,
    sliding_window_size: int = -1,
    sinks: Tensor | None = None,
    max_seq_len: int | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
) -> None:
    """Write o_extend: attention of new tokens to their prefixes and to each other.

    q_extend, o_extend: [total_q, num_heads, head_dim]; k_extend, v_extend: [total_q, num_kv_heads, head_dim].
    k_buffer, v_buffer: [num_slots, num_kv_heads, head_dim].
    qo_indptr, kv_indptr: [num_seqs + 1]; kv_indices: slots of prefixes; int32 or int64.
    max_len_extend: an upper bound of new tokens. max_seq_len: one of prefix and new tokens together, which
        SGLang does not pass. Both must be given where the arrays are on a device.
    sm_scale: 1/sqrt(head_dim) where None. logit_cap: none where 0.
    sliding_window_size: keys before its own that a query sees; all where negative.
    k_scale, v_scale: of buffers of 8-bit floats: f32, one element or [num_kv_heads].

    Raises KgenError: K54x for arrays that disagree, K516 for custom_mask and sinks.
    """
    masks = {"custom_mask": custom_mask is not None, "mask_indptr": mask_indptr is not None}
    refuse(NAME, masks, "a mask is an expression: write it under `masks:` of a build")
    refuse(NAME, {"sinks": sinks is not None}, "logits without keys are not part of any variant")
    variant, variant_args = variant_for(NAME, causal=is_causal, left=sliding_window_size, softcap=logit_cap)
    batch = from_arrays(
        qo_indptr,
        kv_indptr,
        kv_indices,
        convention=SEPARATE,
        num_blocks=k_buffer.shape[0],
        max_extend_len=max_len_extend,
        max_seq_len=max_seq_len,
        total_q=q_extend.shape[0],
    )
    ops.extend_attention(
        q_extend,
        k_buffer,
        v_buffer,
        batch,
        k_new=k_extend,
        v_new=v_extend,
        softmax_scale=sm_scale,
        out=o_extend,
        variant=variant,
        variant_args=variant_args,
        k_scale=k_scale,
        v_scale=v_scale,
    )
