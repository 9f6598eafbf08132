"""The prefix functions of the DCU's flash attention, by their public argument lists.

`layout` counts these functions' own layouts: 0 is bhsd and 1 is bshd, for keys and values alike. (To the
DCU's paged attention 0 means bhsd with transposed values: `bhsd_vt`.) In which order layout 2 keeps its
values no public source says, so it is refused; name the order you have in specs/layouts.yaml and
call `kgen.ops.extend_attention`. Layout 1 is SGLang's pool, which is read in place.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kgen import ops
from kgen.diagnostics import Diagnostic, KgenError
from kgen.integrations.switches import refuse, variant_for
from kgen.metadata import ExtendBatch, from_arrays, from_block_table

LAYOUTS: Mapping[int, str] = {0: "bhsd", 1: "bshd"}
TOKEN_AXIS: Mapping[int, int] = {0: 2, 1: 1}


def hg_prefix_prefill_varlen_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    seqused_k: Tensor | None,
    alibi_slopes: Tensor | None,
    block_table: Tensor | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    p_dropout: float,
    softmax_scale: float | None,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    return_softmax: bool,
    layout: int,
    scales_q: Tensor | None = None,
    scales_k: Tensor | None = None,
    scales_v: Tensor | None = None,
    s_aux: Tensor | None = None,
    is_bf16_output: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of new tokens behind prefixes, all keys in the pool.

    q: [total_q, Hq, D]. k, v: pages in `layout`, or, without a block_table, [total_k, Hkv, D].
    out: like q; allocated where None. zero_tensors changes nothing: every row of a sequence is written.
    cu_seqlens_q, cu_seqlens_k: [B + 1]; seqused_k: [B], keys in use, in place of what cu_seqlens_k says.
    alibi_slopes: [Hq] f32. block_table: [B, pages]. Index arrays are int32 or int64.
    softmax_scale: 1/sqrt(D) where None. softcap: none where 0.
    window_size_left, window_size_right: keys before and after its own that a query sees; all where negative.
    scales_k, scales_v: with k and v of 8-bit floats, and only then: f32, one element or [Hkv].

    Returns (out, LSE [Hq, total_q] f32, natural logarithm). Raises KgenError: K516 for dropout,
    return_softmax, scales_q, s_aux, slopes by sequence and layout 2; K54x for arrays that disagree.
    """
    name = "hg_prefix_prefill_varlen_fwd"
    _refuse(name, p_dropout, return_softmax, scales_q, s_aux)
    if is_bf16_output is not None and is_bf16_output != (q.dtype == torch.bfloat16):
        raise _fault("K516", f"{name}: the output has the dtype of q, {q.dtype}", "leave is_bf16_output out")
    if alibi_slopes is not None and alibi_slopes.dim() != 1:
        raise _fault("K516", f"{name}: alibi_slopes has shape {list(alibi_slopes.shape)}", "one slope a head")
    if layout not in LAYOUTS:
        hint = "0 is bhsd, 1 is bshd; in which order layout 2 keeps its values is not known"
        raise _fault("K516", f"{name}: layout {layout} is not served", hint)
    variant, variant_args = variant_for(
        name,
        causal=is_causal,
        left=window_size_left,
        right=window_size_right,
        softcap=softcap,
        slopes=alibi_slopes,
    )
    lengths = cu_seqlens_k.diff() if seqused_k is None else seqused_k
    bounds = {"max_extend_len": max_seqlen_q, "max_seq_len": max_seqlen_k, "total_q": q.shape[0]}
    if block_table is None:
        batch, paged = _of_rows(k, cu_seqlens_q, cu_seqlens_k, lengths, bounds), "bshd"
    else:
        size, extend = k.shape[TOKEN_AXIS[layout]], cu_seqlens_q.diff()
        batch = from_block_table(block_table, lengths, extend, size, num_blocks=k.shape[0], **bounds)
        paged = LAYOUTS[layout]
    found, lse = ops.extend_attention(
        q,
        k,
        v,
        batch,
        softmax_scale=softmax_scale,
        layout=paged,
        out=out,
        return_lse=True,
        variant=variant,
        variant_args=variant_args,
        k_scale=scales_k,
        v_scale=scales_v,
    )
    return found, lse.T.contiguous()


def hg_prefix_decode_varlen_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    seqused_k: Tensor | None,
    alibi_slopes: Tensor | None,
    block_table: Tensor | None,
    max_seqlen_q: int,
    *rest: object,
    **named: object,
) -> tuple[Tensor, Tensor]:
    """`hg_prefix_prefill_varlen_fwd` for 1 to 8 new tokens a sequence, with the same arguments and results.

    Raises KgenError (K515) where max_seqlen_q is above 8."""
    if max_seqlen_q > 8:
        message = f"hg_prefix_decode_varlen_fwd takes at most 8 new tokens a sequence, not {max_seqlen_q}"
        raise _fault("K515", message, "use hg_prefix_prefill_varlen_fwd")
    shared = (q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_k, alibi_slopes, block_table, max_seqlen_q)
    return hg_prefix_prefill_varlen_fwd(*shared, *rest, **named)  # type: ignore[arg-type]


def _of_rows(
    k: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, lengths: Tensor, bounds: Mapping[str, int]
) -> ExtendBatch:
    """The batch of keys that lie behind each other, row for row as cu_seqlens_k says."""
    rows = torch.arange(k.shape[0], device=k.device, dtype=cu_seqlens_k.dtype)
    if lengths.device.type == "cpu" and not torch.equal(lengths.to(cu_seqlens_k.dtype), cu_seqlens_k.diff()):
        hint = "pass a block_table"
        raise _fault("K541", "without a block_table seqused_k must be what cu_seqlens_k says", hint)
    return from_arrays(
        cu_seqlens_q,
        cu_seqlens_k,
        rows,
        num_blocks=k.shape[0],
        max_extend_len=bounds["max_extend_len"],
        max_seq_len=bounds["max_seq_len"],
        total_q=bounds["total_q"],
    )


def _refuse(
    name: str,
    p_dropout: float,
    return_softmax: bool,
    scales_q: Tensor | None,
    s_aux: Tensor | None,
) -> None:
    refuse(name, {"p_dropout": p_dropout > 0}, "inference drops nothing: pass 0")
    refuse(name, {"return_softmax": return_softmax}, "the weights are never in memory")
    refuse(name, {"scales_q": scales_q is not None}, "queries are f32, f16 or bf16, which have no scale")
    refuse(name, {"s_aux": s_aux is not None}, "logits without keys are not part of any variant")


def _fault(code: str, message: str, hint: str) -> KgenError:
    return KgenError(Diagnostic(code, message, hint=hint))
