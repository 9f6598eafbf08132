"""extend_attention by its C interface, every mask and score, against the plain formula in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from kgen.manifest import ERRORS
from kgen.semantics import evaluate
from kgen.syntax.ast import to_code
from tests.kernels.harness import DTYPES, Kernel, cache_words, in_order, kernel, shipped, tensor

TOLERANCE = {"f32": 1e-5, "f16": 2e-3, "bf16": 2e-2}
HEADS, KV_HEADS = 6, 2
SCALE = 0.21
MASKS = shipped().ops["extend_attention"].variants


@dataclass(frozen=True)
class Batch:
    """Prefix and new tokens of each sequence; more queries than keys where the prefix is negative."""

    prefixes: Sequence[int]
    new: Sequence[int]

    @property
    def lengths(self) -> list[int]:
        return [prefix + new for prefix, new in zip(self.prefixes, self.new, strict=True)]


RAGGED = Batch([70, 0, 5, 130, 0, -3, 31], [3, 50, 0, 71, 1, 8, 1])


def arguments(variant: str, batch: Batch) -> dict[str, int | float | Tensor]:
    """Values of a variant's arguments; arrays over queries and keys as the operator takes them."""
    torch.manual_seed(7)
    total, longest = sum(batch.new), max(*batch.lengths, 1)
    every: dict[str, int | float | Tensor] = {
        "window": 37,
        "left": 20,
        "right": 6,
        "sinks": 3,
        "prefix": torch.randint(0, 90, (len(batch.new),), dtype=torch.int32),
        "chunk": 48,
        "query_document": torch.randint(0, 3, (total,), dtype=torch.int32),
        "key_document": torch.randint(0, 3, (len(batch.new), longest), dtype=torch.int32),
        "cap": 1.5,
        "slope": torch.rand(HEADS),
    }
    return {name: every[name] for name in MASKS[variant].args}


def exact(
    variant: str,
    args: Mapping[str, int | float | Tensor],
    batch: Batch,
    q: Tensor,
    k: Sequence[Tensor],
    v: Sequence[Tensor],
) -> tuple[Tensor, Tensor]:
    """Outputs and LSE of every row, pair by pair as the mask and the score say."""
    spec = MASKS[variant]
    mask, score = (to_code(expr) if expr is not None else None for expr in (spec.mask, spec.score))
    outs, lses, row = [], [], 0
    for seq, (length, new) in enumerate(zip(batch.lengths, batch.new, strict=True)):
        for i in range(new):
            position = length - new + i
            names: dict[str, object] = {"q": position, "batch": seq}
            for name, value in args.items():
                names[name] = value if not isinstance(value, Tensor) else value.tolist()
            if "query_document" in args:
                names["query_document"] = [args["query_document"][row].item()] * max(position + 1, 0)
                names["key_document"] = args["key_document"][seq].tolist()
            logits = torch.full((HEADS, length), -math.inf, dtype=torch.float64)
            for kv in range(length):
                if mask is not None and not evaluate(mask, {**names, "kv": kv, "head": 0}):
                    continue
                for head in range(HEADS):
                    s = (
                        float(q[row, head].double() @ k[seq][head // (HEADS // KV_HEADS), kv].double())
                        * SCALE
                    )
                    logits[head, kv] = (
                        s if score is None else evaluate(score, {**names, "kv": kv, "head": head, "s": s})
                    )
            weights = torch.softmax(logits, -1).nan_to_num(0.0)
            values = v[seq].double().repeat_interleave(HEADS // KV_HEADS, 0)
            outs.append((weights[:, None] @ values)[:, 0])
            lses.append(torch.logsumexp(logits, -1))
            row += 1
    return torch.stack(outs), torch.stack(lses)


def run(
    kern: Kernel,
    batch: Batch,
    args: Mapping[str, int | float | Tensor],
    q: Tensor,
    k: Sequence[Tensor],
    v: Sequence[Tensor],
    *,
    separate: bool,
    threads: int = 1,
    change: Mapping[str, Tensor] | None = None,
) -> tuple[int, list[int], Tensor, Tensor]:
    """The kernel on pages that hold NaN wherever no key is."""
    block, dim = int(kern.variant.params["block_size"]), int(kern.variant.params["head_dim"])
    layout = shipped().layouts[str(kern.variant.params["layout"])]
    dtype = DTYPES[str(kern.variant.params["dtype"])]
    pooled = [
        max(p, 0) if separate else length for p, length in zip(batch.prefixes, batch.lengths, strict=True)
    ]
    counts = [-(-n // block) for n in pooled]
    blocks = sum(counts) + 3
    order = torch.randperm(blocks)[: sum(counts)].to(torch.int32)
    pool = {name: torch.full((blocks, KV_HEADS, block, dim), math.nan, dtype=dtype) for name in "kv"}
    start = 0
    for seq, (count, held) in enumerate(zip(counts, pooled, strict=True)):
        for token in range(held):
            page = order[start + token // block]
            pool["k"][page, :, token % block] = k[seq][:, token]
            pool["v"][page, :, token % block] = v[seq][:, token]
        start += count
    total = sum(batch.new)
    out, lse = torch.full((total, HEADS, dim), 7.0, dtype=dtype), torch.full((total, HEADS), 7.0)
    arrays = {
        "qo_indptr": torch.tensor([0, *batch.new]).cumsum(0).to(torch.int32),
        "kv_indptr": torch.tensor([0, *counts]).cumsum(0).to(torch.int32),
        "kv_indices": order,
        "seq_lens": torch.tensor(batch.lengths, dtype=torch.int32),
        **(change or {}),
    }
    keys, values = in_order(pool["k"], layout.k), in_order(pool["v"], layout.v)
    words: dict[str, int | float] = {
        **tensor("out", out, "row", "head", "dim"),
        **tensor("lse", lse, "row", "head"),
        **tensor("q", q, "row", "head", "dim"),
        **cache_words("k_cache", keys, layout.k),
        **cache_words("v_cache", values, layout.v),
        **{name: array.data_ptr() for name, array in arrays.items()},
        "softmax_scale": SCALE,
        "max_extend_len": max(batch.new),
        "max_seq_len": max(batch.lengths),
        "total_q": total,
        "num_heads": HEADS,
        "num_blocks": blocks,
        "num_kv_heads": KV_HEADS,
        "num_indices": order.shape[0],
        "num_seqs": len(batch.new),
        "group": HEADS // KV_HEADS,
    }
    new = (
        {
            name: torch.cat(
                [
                    x[:, n - m :].transpose(0, 1)
                    for x, n, m in zip(each, batch.lengths, batch.new, strict=True)
                ]
            ).contiguous()
            for name, each in (("k_new", k), ("v_new", v))
        }
        if separate
        else {}
    )
    for name in ("k_new", "v_new"):
        absent = {name: 0, f"{name}_stride_row": 0, f"{name}_stride_head": 0}
        words |= tensor(name, new[name], "row", "head", "dim") if separate else absent
    for name, value in args.items():
        words[f"v_{name}"] = value.data_ptr() if isinstance(value, Tensor) else value
        if name == "key_document":
            words["v_key_document_stride_seq"] = value.stride(0)
    code, error = kern.call(words, threads)
    return code, error, out, lse


def rows(batch: Batch, dtype: str, dim: int) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    torch.manual_seed(3)
    k, v = ([torch.randn(KV_HEADS, n, dim).to(DTYPES[dtype]) for n in batch.lengths] for _ in range(2))
    return torch.randn(sum(batch.new), HEADS, dim).to(DTYPES[dtype]), k, v


def check(
    variant: str, dtype: str, dim: int, block: int, layout: str, *, separate: bool, threads: int = 1
) -> None:
    batch = Batch([max(p, 0) for p in RAGGED.prefixes], RAGGED.new) if separate else RAGGED
    kern = kernel(
        "extend_attention", dtype=dtype, head_dim=dim, block_size=block, layout=layout, variant=variant
    )
    args = arguments(variant, batch)
    q, k, v = rows(batch, dtype, dim)
    code, error, out, lse = run(kern, batch, args, q, k, v, separate=separate, threads=threads)
    assert code == 0, error
    want_out, want_lse = exact(variant, args, batch, q, k, v)
    torch.testing.assert_close(out.double(), want_out, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    torch.testing.assert_close(lse.double(), want_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("separate", [False, True], ids=["pool", "separate"])
@pytest.mark.parametrize("variant", sorted(MASKS))
def test_every_mask_and_score(variant: str, separate: bool) -> None:
    check(variant, "f32", 32, 16, "bshd", separate=separate)


@pytest.mark.parametrize(
    ("dtype", "dim", "block", "layout"),
    [("bf16", 128, 1, "bshd"), ("bf16", 72, 16, "vllm"), ("f16", 64, 64, "bhsd_vt"), ("f16", 40, 16, "bhsd")],
)
@pytest.mark.parametrize("separate", [False, True], ids=["pool", "separate"])
def test_dtypes_and_layouts(dtype: str, dim: int, block: int, layout: str, separate: bool) -> None:
    check("causal", dtype, dim, block, layout, separate=separate, threads=3)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"qo_indptr": [0, 3, 2, 3]}, "indptr", [2, 0, 2]),
        ({"qo_indptr": [0, 3, 4, 9]}, "indptr", [3, 0, 9]),
        ({"kv_indptr": [0, 2, 1, 5]}, "indptr", [2, 1, 1]),
        ({"qo_indptr": [0, 1, 7, 7]}, "extend_len", [1, 4, 6]),
        ({"seq_lens": [20, -1, 30]}, "seq_len", [1, 30, -1]),
        ({"seq_lens": [20, 31, 30]}, "seq_len", [1, 30, 31]),
        ({"kv_indices": [0, 1, 2, -1, 3]}, "block_id", [1, 1, -1]),
        ({"kv_indices": [0, 1, 2, 3, 99]}, "block_id", [2, 0, 99]),
    ],
)
def test_faulty_arrays_are_refused_before_the_first_write(
    change: dict[str, list[int]], error: str, words: list[int]
) -> None:
    batch = Batch([17, 26, 12], [3, 4, 0])
    kern = kernel(
        "extend_attention", dtype="f32", head_dim=32, block_size=16, layout="bshd", variant="causal"
    )
    q, k, v = rows(batch, "f32", 32)
    changed = {name: torch.tensor(value, dtype=torch.int32) for name, value in change.items()}
    code, found, out, lse = run(kern, batch, {}, q, k, v, separate=False, change=changed)
    assert (code, found[1:]) == (ERRORS[error], words)
    assert bool((out == 7.0).all()) and bool((lse == 7.0).all())
