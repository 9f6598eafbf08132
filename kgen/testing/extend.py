"""Cases of extend_attention: ragged batches in both conventions, under every mask and score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from kgen import ops, reference
from kgen.metadata import POOL, SEPARATE, ExtendBatch
from kgen.reference import known_order
from kgen.testing import tolerance
from kgen.testing.attention import draw_pages, draw_table, layout_of, logit_size
from kgen.testing.case import Case, Expected, Fault, Inputs
from kgen.testing.fp8 import cache_values, draw_scales, multiplies_bf16, place_scale, scale_faults, scale_of
from kgen.testing.masks import mask_of, noting, score_of
from kgen.testing.memory import DTYPES, Form, Garbage, place, place_cache, place_output
from kgen.testing.values import draw_args, placed_args, variant_of

INDICES = ("qo_indptr", "kv_indptr", "kv_indices", "seq_lens")


class ExtendAttention:
    """Values of a case: prefixes and new (tokens of each sequence), group, num_kv_heads, softmax_scale,
    convention. A prefix below 0 leaves more queries than keys, where the new keys are in the pool."""

    outputs: tuple[str, ...] = ("out", "lse")

    def shapes(self, name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for group in dict.fromkeys(values["groups"]):
            for convention in (POOL, SEPARATE):
                yield f"{name}-g{group}-{convention}", {**values, "group": group, "convention": convention}

    def materialise(self, case: Case, form: Form, garbage: Garbage) -> Inputs:
        params, values, generator = case.variant.params, case.values, case.generator()
        separate = values["convention"] == SEPARATE
        prefixes = [max(prefix, 0) if separate else prefix for prefix in values["prefixes"]]
        lengths = [prefix + new for prefix, new in zip(prefixes, values["new"], strict=True)]
        dtype = DTYPES[str(params["dtype"])]
        total, kv_heads, head_dim = sum(values["new"]), values["num_kv_heads"], int(params["head_dim"])
        heads = values["group"] * kv_heads
        q = torch.randn(total, heads, head_dim, generator=generator)
        table, live = draw_table(prefixes if separate else lengths, int(params["block_size"]), generator)
        placed = {
            "q": place(q.to(dtype), form, garbage),
            "out": place_output((total, heads, head_dim), dtype, form, garbage),
            "lse": place_output((total, heads), torch.float32, form, garbage),
            **{name: place(array, form, garbage) for name, array in _indices(table, lengths, values).items()},
        }
        scales = draw_scales(case, kv_heads, generator)
        placed |= {name: place_scale(scale, form, garbage) for name, scale in scales.items()}
        for which in "kv":
            pages = draw_pages(case, live, scales.get(f"{which}_scale"), generator, garbage)
            order = known_order(layout_of(case), which)
            placed[f"{which}_cache"] = place_cache(reference.from_canonical(pages, order), form, garbage)
            new = torch.randn(total, kv_heads, head_dim, generator=generator).to(dtype)
            if separate:
                placed[f"{which}_new"] = place(new, form, garbage)
        scalars: dict[str, float | int] = {
            "softmax_scale": float(values["softmax_scale"]),
            "max_extend_len": max(values["new"], default=0) + form.slack,
            "max_seq_len": max([0, *lengths]) + form.slack,
        }
        sizes = {"head": heads, "batch": len(lengths), "q": total, "kv": int(scalars["max_seq_len"])}
        arrays, singles = draw_args(variant_of(case), sizes, lengths, generator, garbage)
        placed |= {name: place(array, form, garbage) for name, array in arrays.items()}
        return Inputs(case, placed, {**scalars, **singles})

    def run(self, inputs: Inputs) -> None:
        params = inputs.case.variant.params
        ops.extend_attention(
            inputs["q"],
            inputs["k_cache"],
            inputs["v_cache"],
            _batch(inputs),
            k_new=_optional(inputs, "k_new"),
            v_new=_optional(inputs, "v_new"),
            softmax_scale=float(inputs.scalars["softmax_scale"]),
            out=inputs["out"],
            lse=inputs["lse"],
            layout=str(params["layout"]),
            variant=str(params["variant"]),
            variant_args=placed_args(inputs),
            k_scale=scale_of(inputs, "k_scale"),
            v_scale=scale_of(inputs, "v_scale"),
            arch=str(params["arch"]),
        )

    def expect(self, inputs: Inputs) -> Mapping[str, Expected]:
        sizes = _Sizes(inputs)
        exact, lse = _oracle(inputs, sizes=sizes)
        magnitude, _ = _oracle(inputs, absolute=True)
        params, dtype = inputs.case.variant.params, inputs["out"].dtype
        logits = sizes.bent if variant_of(inputs.case).score is not None else 0.0
        relative = tolerance.weight_error(
            int(params["head_dim"]), int(inputs.scalars["max_seq_len"]), sizes.scaled
        ) + tolerance.score_error(logits)
        weights = tolerance.ROUNDOFF[dtype] if _narrow_weights(inputs.case) else 0.0
        bound = tolerance.output_bound(exact, relative.unsqueeze(-1), magnitude, dtype, weights=weights)
        return {"out": Expected(exact, bound), "lse": Expected(lse, tolerance.lse_bound(lse, relative))}

    def faults(self, inputs: Inputs) -> tuple[Fault, ...]:
        used = torch.nonzero(inputs["kv_indptr"].diff())[:, 0].tolist()
        rows = torch.nonzero(inputs["qo_indptr"].diff())[:, 0].tolist()
        if not used or not rows:
            return ()
        seq, row = used[-1], rows[0]
        last = int(inputs["kv_indptr"][seq + 1]) - 1
        blocks, total = inputs["k_cache"].shape[0], inputs["q"].shape[0]
        entries = inputs["kv_indices"].shape[0]
        return (
            Fault("negative page", lambda to: to["kv_indices"][last].fill_(-1)),
            Fault("page past the pool", lambda to: to["kv_indices"][last].fill_(blocks)),
            Fault("length past the pages", lambda to: to["seq_lens"][seq].fill_(2**30)),
            Fault("negative length", lambda to: to["seq_lens"][seq].fill_(-1)),
            Fault("rows past the queries", lambda to: to["qo_indptr"][-1].fill_(total + 1)),
            Fault("falling rows", lambda to: to["qo_indptr"][row].fill_(int(to["qo_indptr"][row + 1]) + 1)),
            Fault("entries past the indices", lambda to: to["kv_indptr"][-1].fill_(entries + 1)),
            *scale_faults(inputs),
        )


def _indices(table: Tensor, lengths: Sequence[int], values: Mapping[str, Any]) -> Mapping[str, Tensor]:
    """The index arrays; two entries that no sequence uses follow kv_indices."""
    counts = (table >= 0).sum(1)
    extend = torch.tensor(values["new"], dtype=torch.int64)
    arrays = {
        "qo_indptr": torch.nn.functional.pad(extend.cumsum(0), (1, 0)),
        "kv_indptr": torch.nn.functional.pad(counts.cumsum(0), (1, 0)),
        "kv_indices": torch.cat([table[table >= 0], torch.tensor([-1, 2**30])]),
        "seq_lens": torch.tensor(lengths, dtype=torch.int64),
    }
    return {name: array.int() for name, array in arrays.items()}


def _batch(inputs: Inputs) -> ExtendBatch:
    """The batch as a caller's arrays say it, unchecked: what is wrong is the kernel's to find."""
    arrays = {name: inputs[name] for name in INDICES}
    extend = arrays["qo_indptr"].diff()
    return ExtendBatch(
        **arrays,
        extend_seq_lens=extend,
        extend_prefix_lens=arrays["seq_lens"] - extend,
        extend_start_loc=arrays["qo_indptr"][:-1],
        block_size=int(inputs.case.variant.params["block_size"]),
        convention=str(inputs.case.values["convention"]),
        total_q=inputs["q"].shape[0],
        max_extend_len=int(inputs.scalars["max_extend_len"]),
        max_seq_len=int(inputs.scalars["max_seq_len"]),
    )


def _optional(inputs: Inputs, name: str) -> Tensor | None:
    return inputs[name] if name in inputs.placed else None


class _Sizes:
    """How large the numbers of each row and head get, [total_q, heads]: `scaled`, of the terms of
    q.k*scale; `bent`, of visible logits."""

    def __init__(self, inputs: Inputs) -> None:
        shape = inputs["q"].shape[:2]
        self.scaled, self.bent = (torch.zeros(shape, dtype=torch.float64) for _ in range(2))


def _oracle(inputs: Inputs, *, absolute: bool = False, sizes: _Sizes | None = None) -> tuple[Tensor, Tensor]:
    """O and LSE; with the sizes of values for `absolute`. Notes the sizes of numbers where asked."""
    spec, args = variant_of(inputs.case), placed_args(inputs)
    mask, score = mask_of(spec, args), score_of(spec, args)
    v_new, values = _optional(inputs, "v_new"), cache_values(inputs, "v", layout_of(inputs.case))
    found = reference.extend_attention(
        inputs["q"],
        cache_values(inputs, "k", layout_of(inputs.case)),
        values.abs() if absolute else values,
        inputs["qo_indptr"],
        inputs["kv_indptr"],
        inputs["kv_indices"],
        inputs["seq_lens"],
        float(inputs.scalars["softmax_scale"]),
        layout_of(inputs.case),
        k_new=_optional(inputs, "k_new"),
        v_new=v_new.abs() if absolute and v_new is not None else v_new,
        mask=mask,
        score=score if sizes is None else noting(mask, score, sizes.bent),
    )
    if sizes is not None:
        _note_terms(inputs, sizes)
    return found


def _note_terms(inputs: Inputs, sizes: _Sizes) -> None:
    """The largest norm of the terms of a row's products over all keys of its sequence."""
    order = known_order(layout_of(inputs.case), "k")
    keys = cache_values(inputs, "k", layout_of(inputs.case))
    scale, k_new = abs(float(inputs.scalars["softmax_scale"])), _optional(inputs, "k_new")
    rows, entries = inputs["qo_indptr"].tolist(), inputs["kv_indptr"].tolist()
    for seq, length in enumerate(inputs["seq_lens"].tolist()):
        begin, end = rows[seq], rows[seq + 1]
        pooled = length if k_new is None else length - (end - begin)
        table = inputs["kv_indices"][entries[seq] : entries[seq + 1]]
        k = reference.gather_cache(keys, order, table, pooled)
        k = k if k_new is None else torch.cat([k, k_new[begin:end]])
        for row in range(begin, end) if length else ():
            sizes.scaled[row] = logit_size(inputs["q"][row], k, scale)


def _narrow_weights(case: Case) -> bool:
    """Whether softmax weights are rounded to the dtype of the values for the second product."""
    target = case.variant.target
    if target.family == "cpu":
        return multiplies_bf16(case)
    return bool(case.variant.lets.get("multiplies"))
