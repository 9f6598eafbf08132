"""Cases of paged_attention: shuffled pages, ragged rows, poison wherever no key lives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from kgen import ops, reference
from kgen.dispatch.gpu import stream_lookup
from kgen.layout import Layout
from kgen.reference import known_order
from kgen.testing import tolerance
from kgen.testing.case import Case, Expected, Fault, Inputs
from kgen.testing.fp8 import (
    cache_values,
    draw_scales,
    draw_values,
    kv_format,
    multiplies_bf16,
    place_scale,
    scale_faults,
    scale_of,
)
from kgen.testing.masks import mask_of, noting, score_of
from kgen.testing.memory import DTYPES, Form, Garbage, place, place_cache, place_output
from kgen.testing.values import draw_args, placed_args, variant_of

SPARE_PAGES = 3
"""Pages of the pool that no row uses."""


class PagedAttention:
    """Values of a case: seq_lens, group, num_kv_heads, softmax_scale."""

    outputs: tuple[str, ...] = ("out", "lse")

    def shapes(self, name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for group in dict.fromkeys(values["groups"]):
            yield f"{name}-g{group}", {**values, "group": group}

    def materialise(self, case: Case, form: Form, garbage: Garbage) -> Inputs:
        params, values, generator = case.variant.params, case.values, case.generator()
        seqs, heads = len(values["seq_lens"]), values["group"] * values["num_kv_heads"]
        q = torch.randn(seqs, heads, int(params["head_dim"]), generator=generator)
        table, live = draw_table(values["seq_lens"], int(params["block_size"]), generator)
        scales = draw_scales(case, values["num_kv_heads"], generator)
        caches = [draw_pages(case, live, scales.get(f"{which}_scale"), generator, garbage) for which in "kv"]
        layout = layout_of(case)
        placed = {
            "q": place(q.to(DTYPES[str(params["dtype"])]), form, garbage),
            "out": place_output(tuple(q.shape), DTYPES[str(params["dtype"])], form, garbage),
            "lse": place_output((seqs, heads), torch.float32, form, garbage),
            "k_cache": place_cache(
                reference.from_canonical(caches[0], known_order(layout, "k")), form, garbage
            ),
            "v_cache": place_cache(
                reference.from_canonical(caches[1], known_order(layout, "v")), form, garbage
            ),
            "block_table": place(pad_table(table, garbage), form, garbage),
            "seq_lens": place(torch.tensor(values["seq_lens"], dtype=torch.int32), form, garbage),
        }
        longest = max(values["seq_lens"], default=0) + form.slack
        sizes = {"head": heads, "batch": seqs, "q": seqs, "kv": longest}
        arrays, singles = draw_args(variant_of(case), sizes, values["seq_lens"], generator, garbage)
        placed |= {name: place(array, form, garbage) for name, array in arrays.items()}
        placed |= {name: place_scale(scale, form, garbage) for name, scale in scales.items()}
        scalars = {"softmax_scale": float(values["softmax_scale"]), "max_seq_len": longest, **singles}
        return Inputs(case, placed, scalars)

    def run(self, inputs: Inputs) -> None:
        params = inputs.case.variant.params
        poison_workspace(inputs)
        ops.paged_attention(
            inputs["q"],
            inputs["k_cache"],
            inputs["v_cache"],
            inputs["block_table"],
            inputs["seq_lens"],
            softmax_scale=float(inputs.scalars["softmax_scale"]),
            max_seq_len=int(inputs.scalars["max_seq_len"]),
            out=inputs["out"],
            lse=inputs["lse"],
            layout=str(params["layout"]),
            partition_size=int(params["partition_size"]),
            reuse_kv_times=int(params["reuse_kv_times"]),
            variant=str(params["variant"]),
            variant_args=placed_args(inputs),
            k_scale=scale_of(inputs, "k_scale"),
            v_scale=scale_of(inputs, "v_scale"),
            arch=str(params["arch"]),
        )

    def expect(self, inputs: Inputs) -> Mapping[str, Expected]:
        bent = torch.zeros(inputs["q"].shape[:2], dtype=torch.float64)
        values = cache_values(inputs, "v", layout_of(inputs.case))
        exact, lse = _oracle(inputs, values, bent)
        magnitude, _ = _oracle(inputs, values.abs())
        relative = tolerance.weight_error(
            int(inputs.case.variant.params["head_dim"]),
            int(inputs.scalars["max_seq_len"]),
            _logit_size(inputs),
        )
        if variant_of(inputs.case).score is not None:
            relative = relative + tolerance.score_error(bent)
        dtype = inputs["out"].dtype
        weights = tolerance.ROUNDOFF[dtype] if _narrow_weights(inputs.case) else 0.0
        bound = tolerance.output_bound(exact, relative.unsqueeze(-1), magnitude, dtype, weights=weights)
        return {"out": Expected(exact, bound), "lse": Expected(lse, tolerance.lse_bound(lse, relative))}

    def faults(self, inputs: Inputs) -> tuple[Fault, ...]:
        lengths = inputs["seq_lens"].tolist()
        row = max(range(len(lengths)), key=lengths.__getitem__)
        if lengths[row] == 0:
            return ()
        last = (lengths[row] - 1) // int(inputs.case.variant.params["block_size"])
        blocks = inputs["k_cache"].shape[0]
        capacity = inputs["block_table"].shape[1] * int(inputs.case.variant.params["block_size"])
        return (
            Fault("negative block id", lambda to: to["block_table"][row, last].fill_(-1)),
            Fault("block id past the pool", lambda to: to["block_table"][row, last].fill_(blocks)),
            Fault("length past the table", lambda to: to["seq_lens"][row].fill_(capacity + 1)),
            Fault("negative length", lambda to: to["seq_lens"][row].fill_(-1)),
            *scale_faults(inputs),
        )


def _narrow_weights(case: Case) -> bool:
    """Whether softmax weights are rounded to the dtype of the queries for the second product."""
    if case.variant.target.family == "cpu":
        in_rows = known_order(layout_of(case), "v").innermost != "token"
        return multiplies_bf16(case) and kv_format(case) is not None and in_rows
    return bool(case.variant.lets.get("matrix") or case.variant.lets.get("groups"))


def poison_workspace(inputs: Inputs) -> None:
    """Fill all the scratch memory the call will use with NaN."""
    params = inputs.case.variant.params
    if params["partition_size"]:
        seqs, heads, _ = inputs["q"].shape
        sizes = {"num_seqs": seqs, "num_heads": heads, "num_kv_heads": inputs.case.values["num_kv_heads"]}
        longest = int(inputs.scalars["max_seq_len"])
        size = ops.workspace_size("paged_attention", **params, **sizes, max_seq_len=longest)
        device = inputs["q"].device
        stream = stream_lookup()(device.index or 0) if device.type == "cuda" else 0
        ops.dispatcher().workspaces.reserve(size, str(device), stream).fill_(0xFF)


def draw_table(seq_lens: list[int], block_size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Shuffled page ids [rows, pages] (0 past a row's end, never in use) and which slots hold a key
    [blocks, block_size]."""
    counts = [-(-length // block_size) for length in seq_lens]
    ids = torch.randperm(sum(counts) + SPARE_PAGES, generator=generator)
    table = torch.full((len(seq_lens), max(counts, default=0)), -1, dtype=torch.int64)
    live = torch.zeros(len(ids), block_size, dtype=torch.bool)
    start = 0
    for row, (length, count) in enumerate(zip(seq_lens, counts, strict=True)):
        own = ids[start : start + count]
        table[row, :count] = own
        filled = torch.arange(count * block_size).view(count, block_size) < length
        live[own] = filled
        start += count
    return table, live


def pad_table(table: Tensor, garbage: Garbage) -> Tensor:
    """The table as int32 with garbage wherever no page is, and two columns of it behind."""
    padded = torch.nn.functional.pad(table, (0, 2), value=-1)
    return padded.masked_fill(padded < 0, garbage.index).int()


def draw_pages(
    case: Case, live: Tensor, scale: Tensor | None, generator: torch.Generator, garbage: Garbage
) -> Tensor:
    """Values [block, token, head, dim] in the slots that live, garbage in all others."""
    shape = (*live.shape, int(case.values["num_kv_heads"]), int(case.variant.params["head_dim"]))
    pages = draw_values(case, shape, scale, generator)
    garbage.spoil(pages, ~live)
    return pages


def layout_of(case: Case) -> Layout:
    return case.variant.op.layouts[str(case.variant.params["layout"])]


def _oracle(inputs: Inputs, v_cache: Tensor, bent: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """O and LSE; `bent` [rows, heads] gets the sizes of logits."""
    spec, args = variant_of(inputs.case), placed_args(inputs)
    mask, score = mask_of(spec, args), score_of(spec, args)
    return reference.paged_attention(
        inputs["q"],
        cache_values(inputs, "k", layout_of(inputs.case)),
        v_cache,
        inputs["block_table"],
        inputs["seq_lens"],
        float(inputs.scalars["softmax_scale"]),
        layout_of(inputs.case),
        mask=mask,
        score=score if bent is None else noting(mask, score, bent),
    )


def _logit_size(inputs: Inputs) -> Tensor:
    """The largest `logit_size` over the keys of each row and head [rows, heads]; 0 without keys."""
    order = known_order(layout_of(inputs.case), "k")
    keys = cache_values(inputs, "k", layout_of(inputs.case))
    scale = abs(float(inputs.scalars["softmax_scale"]))
    sizes = torch.zeros(inputs["q"].shape[:2], dtype=torch.float64)
    for row, length in enumerate(inputs["seq_lens"].tolist()):
        if length:
            k = reference.gather_cache(keys, order, inputs["block_table"][row], length)
            sizes[row] = logit_size(inputs["q"][row], k, scale)
    return sizes


def logit_size(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """The norm of the terms q_i*k_i*scale, the largest over the keys: q [Hq, D], k [L, Hkv, D] -> [Hq]."""
    queries = q.double().square().reshape(k.shape[1], -1, q.shape[1])
    squares = torch.einsum("hgd,khd->khg", queries, k.double().square())
    return squares.amax(0).flatten().sqrt() * scale
