"""Cases of reshape_and_cache: scattered slots, padding tokens, and every other slot untouched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kgen import ops, reference
from kgen.reference import known_order
from kgen.testing.attention import SPARE_PAGES, layout_of
from kgen.testing.case import Case, Expected, Fault, Inputs
from kgen.testing.memory import DTYPES, Form, Garbage, place, place_cache


class ReshapeAndCache:
    """Values of a case: tokens, num_kv_heads, padding (tokens whose slot is -1)."""

    outputs: tuple[str, ...] = ("k_cache", "v_cache")

    def shapes(self, name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield name, values

    def materialise(self, case: Case, form: Form, garbage: Garbage) -> Inputs:
        params, values, generator = case.variant.params, case.values, case.generator()
        tokens, heads, head_dim = values["tokens"], values["num_kv_heads"], int(params["head_dim"])
        block_size, dtype = int(params["block_size"]), DTYPES[str(params["dtype"])]
        blocks = -(-tokens // block_size) + SPARE_PAGES
        slots = torch.randperm(blocks * block_size, generator=generator)[:tokens]
        slots[torch.randperm(tokens, generator=generator)[: values["padding"]]] = -1
        placed = {"slot_mapping": place(slots, form, garbage)}
        for new, which in (("key", "k"), ("value", "v")):
            drawn = torch.randn(tokens, heads, head_dim, generator=generator).to(dtype)
            old = torch.randn(blocks, block_size, heads, head_dim, generator=generator)
            pages = old.to(DTYPES[str(params["kv_dtype"])])
            order = known_order(layout_of(case), which)
            placed[new] = place(drawn, form, garbage)
            placed[f"{which}_cache"] = place_cache(reference.from_canonical(pages, order), form, garbage)
        return Inputs(case, placed, {})

    def run(self, inputs: Inputs) -> None:
        params = inputs.case.variant.params
        ops.reshape_and_cache(
            inputs["key"],
            inputs["value"],
            inputs["k_cache"],
            inputs["v_cache"],
            inputs["slot_mapping"],
            layout=str(params["layout"]),
            arch=str(params["arch"]),
        )

    def expect(self, inputs: Inputs) -> Mapping[str, Expected]:
        k_cache, v_cache = reference.reshape_and_cache(
            inputs["key"],
            inputs["value"],
            inputs["k_cache"],
            inputs["v_cache"],
            inputs["slot_mapping"],
            layout_of(inputs.case),
        )
        return {"k_cache": Expected(k_cache), "v_cache": Expected(v_cache)}

    def faults(self, inputs: Inputs) -> tuple[Fault, ...]:
        slots = inputs["k_cache"].shape[0] * int(inputs.case.variant.params["block_size"])
        return (
            Fault("slot past the pool", lambda to: to["slot_mapping"][-1:].fill_(slots)),
            Fault("slot below -1", lambda to: to["slot_mapping"][-1:].fill_(-2)),
            Fault("slot past 2^31", lambda to: to["slot_mapping"][-1:].fill_(2**31 + 1)),
        )
