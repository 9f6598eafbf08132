"""Cases of merge_states: partial results of which some are empty, and rows that are empty whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kgen import ops, reference
from kgen.testing import tolerance
from kgen.testing.case import Case, Expected, Fault, Inputs
from kgen.testing.memory import DTYPES, Form, Garbage, place, place_output


class MergeStates:
    """Values of a case: rows, heads, states. The first row is empty; a third of the others' states are."""

    outputs: tuple[str, ...] = ("out", "lse")

    def shapes(self, name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield name, values

    def materialise(self, case: Case, form: Form, garbage: Garbage) -> Inputs:
        values, generator = case.values, case.generator()
        rows, heads, count = values["rows"], values["heads"], values["states"]
        head_dim, dtype = int(case.variant.params["head_dim"]), DTYPES[str(case.variant.params["dtype"])]
        states = torch.randn(rows, count, heads, head_dim, generator=generator).to(dtype)
        lse = 6.0 * torch.randn(rows, count, heads, generator=generator)
        empty = torch.rand(rows, count, heads, generator=generator) < 1 / 3
        empty[0] = True
        states[empty] = garbage.value
        placed = {
            "out": place_output((rows, heads, head_dim), dtype, form, garbage),
            "lse": place_output((rows, heads), torch.float32, form, garbage),
            "states": place(states, form, garbage),
            "states_lse": place(lse.masked_fill(empty, -torch.inf), form, garbage),
        }
        return Inputs(case, placed, {})

    def run(self, inputs: Inputs) -> None:
        ops.merge_states(
            inputs["states"],
            inputs["states_lse"],
            out=inputs["out"],
            lse=inputs["lse"],
            arch=str(inputs.case.variant.params["arch"]),
        )

    def expect(self, inputs: Inputs) -> Mapping[str, Expected]:
        exact, lse = reference.merge_states(inputs["states"], inputs["states_lse"])
        magnitude, _ = reference.merge_states(inputs["states"].abs(), inputs["states_lse"])
        sizes = inputs["states_lse"].double().abs()
        size = sizes.masked_fill(sizes.isinf(), 0.0).amax(dim=1)
        relative = tolerance.weight_error(1, inputs["states"].shape[1], size)
        bound = tolerance.output_bound(exact, relative.unsqueeze(-1), magnitude, inputs["out"].dtype)
        return {"out": Expected(exact, bound), "lse": Expected(lse, tolerance.lse_bound(lse, relative))}

    def faults(self, inputs: Inputs) -> tuple[Fault, ...]:
        return ()
