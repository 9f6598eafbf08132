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


@dataclass(frozen=True)
class Given:
    """What a call is given: new queries, and keys and values of each sequence, [heads, keys, dim]."""

    q: Tensor
    k: Sequence[Tensor]
    v: Sequence[Tensor]


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
    variant: str, args: Mapping[str, int | float | Tensor], batch: Batch, given: Given
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
                        float(
                            given.q[row, head].double()
                            @ given.k[seq][head // (HEADS // KV_HEADS), kv].double()
                        )
                        * SCALE
                    )
                    logits[head, kv] = (
                        s if score is None else evaluate(score, {**names, "kv": kv, "head": head, "s": s})
                    )
            weights = torch.softmax(logits, -1).nan_to_num(0.0)
            values = given.v[seq].double().repeat_interleave(HEADS // KV_HEADS, 0)
            outs.append((weights[:, None] @ values)[:, 0])
            lses.append(torch.logsumexp(logits, -1))
            row += 1
    return torch.stack(outs), torch.stack(lses)


@dataclass(frozen=True)
class Outcome:
    """What a call answered and left."""

    code: int
    error: list[int]
    out: Tensor
    lse: Tensor


def run(
    kern: Kernel,
    batch: Batch,
    args: Mapping[str, int | float | Tensor],
    given: Given,
    *,
    separate: bool,
    threads: int = 1,
    change: Mapping[str, Tensor] | None = None,
    freed: int = 0,
) -> Outcome:
    """The kernel on pages that hold NaN wherever no key is; the table lacks the first `freed` of them."""
    pooled = [max(p, 0) for p in batch.prefixes] if separate else batch.lengths
    block, dim = int(kern.variant.params["block_size"]), int(kern.variant.params["head_dim"])
    counts = [-(-n // block) for n in pooled]
    blocks, total = sum(counts) + 3, sum(batch.new)
    order = torch.randperm(blocks)[: sum(counts)].to(torch.int32)
    caches = paged(kern, given, pooled, order, blocks)
    out = torch.full((total, HEADS, dim), 7.0, dtype=given.q.dtype)
    lse = torch.full((total, HEADS), 7.0)
    arrays = {
        "qo_indptr": torch.tensor([0, *batch.new]).cumsum(0).to(torch.int32),
        "kv_indptr": torch.tensor([0, *counts]).cumsum(0).to(torch.int32),
        "kv_indices": torch.where(torch.arange(len(order)) < freed, -1, order).to(torch.int32),
        "seq_lens": torch.tensor(batch.lengths, dtype=torch.int32),
        **(change or {}),
    }
    new = new_rows(batch, given) if separate else {}
    layout = shipped().layouts[str(kern.variant.params["layout"])]
    words: dict[str, int | float] = {
        **tensor("out", out, "row", "head", "dim"),
        **tensor("lse", lse, "row", "head"),
        **tensor("q", given.q, "row", "head", "dim"),
        **cache_words("k_cache", caches["k"], layout.k),
        **cache_words("v_cache", caches["v"], layout.v),
        **new_words(new),
        **{name: array.data_ptr() for name, array in arrays.items()},
        **variant_words(args),
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
    return Outcome(*kern.call(words, threads), out, lse)


def paged(
    kern: Kernel, given: Given, pooled: Sequence[int], order: Tensor, blocks: int
) -> Mapping[str, Tensor]:
    """Both caches in the variant's layout: the first `pooled` keys of each sequence, in pages as ordered."""
    block, dim = int(kern.variant.params["block_size"]), int(kern.variant.params["head_dim"])
    layout = shipped().layouts[str(kern.variant.params["layout"])]
    pool = [torch.full((blocks, KV_HEADS, block, dim), math.nan, dtype=given.q.dtype) for _ in range(2)]
    start = 0
    for seq, held in enumerate(pooled):
        for token in range(held):
            page = order[start + token // block]
            for cache, rows in zip(pool, (given.k, given.v), strict=True):
                cache[page, :, token % block] = rows[seq][:, token]
        start += -(-held // block)
    return {"k": in_order(pool[0], layout.k), "v": in_order(pool[1], layout.v)}


def new_rows(batch: Batch, given: Given) -> Mapping[str, Tensor]:
    """The keys and values of the new tokens, row for row like the queries."""
    return {
        name: torch.cat(
            [
                one[:, length - new :].transpose(0, 1)
                for one, length, new in zip(rows, batch.lengths, batch.new, strict=True)
            ]
        ).contiguous()
        for name, rows in (("k_new", given.k), ("v_new", given.v))
    }


def new_words(new: Mapping[str, Tensor]) -> dict[str, int]:
    words: dict[str, int] = {}
    for name in ("k_new", "v_new"):
        absent = {name: 0, f"{name}_stride_row": 0, f"{name}_stride_head": 0}
        words |= tensor(name, new[name], "row", "head", "dim") if new else absent
    return words


def variant_words(args: Mapping[str, int | float | Tensor]) -> dict[str, int | float]:
    words: dict[str, int | float] = {}
    for name, value in args.items():
        words[f"v_{name}"] = value.data_ptr() if isinstance(value, Tensor) else value
        if name == "key_document":
            words["v_key_document_stride_seq"] = value.stride(0)
    return words


def rows(batch: Batch, dtype: str, dim: int) -> Given:
    torch.manual_seed(3)
    k, v = ([torch.randn(KV_HEADS, n, dim).to(DTYPES[dtype]) for n in batch.lengths] for _ in range(2))
    return Given(torch.randn(sum(batch.new), HEADS, dim).to(DTYPES[dtype]), k, v)


def check(
    variant: str, dtype: str, dim: int, block: int, layout: str, *, separate: bool, threads: int = 1
) -> None:
    batch = Batch([max(p, 0) for p in RAGGED.prefixes], RAGGED.new) if separate else RAGGED
    kern = kernel(
        "extend_attention", dtype=dtype, head_dim=dim, block_size=block, layout=layout, variant=variant
    )
    args = arguments(variant, batch)
    given = rows(batch, dtype, dim)
    found = run(kern, batch, args, given, separate=separate, threads=threads)
    assert found.code == 0, found.error
    want_out, want_lse = exact(variant, args, batch, given)
    torch.testing.assert_close(found.out.double(), want_out, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    torch.testing.assert_close(found.lse.double(), want_lse, rtol=1e-5, atol=1e-5)


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
    batch = Batch([17, 26, 12], [3, 4, 1])
    kern = kernel(
        "extend_attention", dtype="f32", head_dim=32, block_size=16, layout="bshd", variant="causal"
    )
    changed = {name: torch.tensor(value, dtype=torch.int32) for name, value in change.items()}
    found = run(kern, batch, {}, rows(batch, "f32", 32), separate=False, change=changed)
    assert (found.code, found.error[1:]) == (ERRORS[error], words)
    assert bool((found.out == 7.0).all()) and bool((found.lse == 7.0).all())


def test_pages_that_a_window_has_left_behind_may_be_gone() -> None:
    """The first query sees from key 164 on, in the tile of 64 keys that begins at 128: page 8."""
    batch = Batch([200, 0], [10, 5])
    kern = kernel(
        "extend_attention", dtype="f32", head_dim=32, block_size=16, layout="bshd", variant="sliding"
    )
    args, given = arguments("sliding", batch), rows(batch, "f32", 32)
    found = run(kern, batch, args, given, separate=False, freed=8)
    assert found.code == 0, found.error
    want_out, _ = exact("sliding", args, batch, given)
    torch.testing.assert_close(found.out.double(), want_out, rtol=1e-5, atol=1e-5)
    found = run(kern, batch, args, given, separate=False, freed=9)
    assert (found.code, found.error[1:]) == (ERRORS["block_id"], [0, 8, -1])
    assert bool((found.out == 7.0).all())
