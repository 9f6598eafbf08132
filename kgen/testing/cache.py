"""Cases of reshape_and_cache: scattered slots, padding tokens, and every other slot untouched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from kgen import ops, reference
from kgen.reference import known_order
from kgen.testing.attention import SPARE_PAGES, layout_of
from kgen.testing.case import Case, Expected, Fault, Inputs
from kgen.testing.fp8 import draw_scales, draw_values, place_scale, scale_faults, scale_of
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
        scales = draw_scales(case, heads, generator)
        placed |= {name: place_scale(scale, form, garbage) for name, scale in scales.items()}
        for new, which in (("key", "k"), ("value", "v")):
            drawn = torch.randn(tokens, heads, head_dim, generator=generator)
            if scales:
                _spice(drawn, scales[f"{which}_scale"], generator)
            drawn = drawn.to(dtype)
            scale = scales.get(f"{which}_scale")
            pages = draw_values(case, (blocks, block_size, heads, head_dim), scale, generator)
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
            k_scale=scale_of(inputs, "k_scale"),
            v_scale=scale_of(inputs, "v_scale"),
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
            scale_of(inputs, "k_scale"),
            scale_of(inputs, "v_scale"),
        )
        return {"k_cache": Expected(k_cache), "v_cache": Expected(v_cache)}

    def faults(self, inputs: Inputs) -> tuple[Fault, ...]:
        slots = inputs["k_cache"].shape[0] * int(inputs.case.variant.params["block_size"])
        return (
            Fault("slot past the pool", lambda to: to["slot_mapping"][-1:].fill_(slots)),
            Fault("slot below -1", lambda to: to["slot_mapping"][-1:].fill_(-2)),
            Fault("slot past 2^31", lambda to: to["slot_mapping"][-1:].fill_(2**31 + 1)),
            *scale_faults(inputs),
        )


def _spice(drawn: Tensor, scale: Tensor, generator: torch.Generator) -> None:
    """Put in values that round to nothing, overflow or are no number, and each sign of 0."""
    strange = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-30, -1e-30, 1e30, -1e30])
    chosen = torch.rand(drawn.shape, generator=generator)
    places = (chosen < 1 / 16).nonzero(as_tuple=True)
    drawn[places] = strange[torch.randint(len(strange), (len(places[0]),), generator=generator)]
    # Quotients all over the range, so that codes of every size are met, and many exactly between two.
    swept = (chosen > 15 / 16) & drawn.isfinite()
    powers = torch.exp2(torch.randint(-20, 18, drawn.shape, generator=generator).float())
    sixteenths = 1 + torch.randint(16, drawn.shape, generator=generator) / 16
    drawn[swept] = (drawn.sign() * powers * sixteenths * scale.reshape(-1, 1))[swept]
