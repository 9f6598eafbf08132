"""Arguments of masks and scores, drawn for a case by their kinds alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from kgen.spec.model import VariantSpec
from kgen.testing.case import Case, Inputs
from kgen.testing.memory import Garbage
from kgen.variants.policy import rule_of

PREFIX = "arg "
"""Before the name of an argument among the tensors and scalars of a case."""


def variant_of(case: Case) -> VariantSpec:
    """The mask and score of the case's variant."""
    mask = case.variant.mask
    if mask is None:
        raise TypeError(f"{case.variant.op.name} has no masks and scores")
    return mask


def draw_args(
    variant: VariantSpec,
    sizes: Mapping[str, int],
    lengths: Sequence[int],
    generator: torch.Generator,
    garbage: Garbage,
) -> tuple[Mapping[str, Tensor], Mapping[str, float | int]]:
    """Arrays and single values: whole numbers from 1 to the longest sequence, few different ones in
    arrays over queries and keys; floats from 0.5 to 2. Values for keys that are none are garbage.

    sizes: of the axes `head`, `batch`, `q` and `kv`.
    """
    arrays: dict[str, Tensor] = {}
    singles: dict[str, float | int] = {}
    longest = max([1, *lengths])
    for arg in rule_of(variant).args:
        most = 3 if arg.axis in ("q", "kv") else longest
        shape = (sizes["batch"], longest) if arg.axis == "kv" else (sizes.get(arg.axis, 1),)
        drawn = (
            torch.randint(1, most + 1, shape, generator=generator, dtype=torch.int32)
            if arg.kind == "int"
            else 0.5 + 1.5 * torch.rand(shape, generator=generator)
        )
        if arg.axis == "kv":
            drawn = _padded(
                drawn, lengths, sizes["kv"], garbage.index if arg.kind == "int" else garbage.value
            )
        if arg.axis:
            arrays[PREFIX + arg.name] = drawn
        else:
            singles[PREFIX + arg.name] = drawn.item()
    return arrays, singles


def _padded(drawn: Tensor, lengths: Sequence[int], width: int, fill: float | int) -> Tensor:
    """Values of keys [sequences, width], `fill` wherever no key is."""
    unused = torch.arange(drawn.shape[1]) >= torch.tensor(lengths).unsqueeze(1)
    kept = drawn.masked_fill(unused, fill)[:, :width]
    return torch.nn.functional.pad(kept, (0, width - kept.shape[1]), value=fill)


def placed_args(inputs: Inputs) -> Mapping[str, Any]:
    """The arguments of the variant in a case in memory, by name."""
    names = [PREFIX + arg.name for arg in rule_of(variant_of(inputs.case)).args]
    return {
        name.removeprefix(PREFIX): inputs[name] if name in inputs.placed else inputs.scalars[name]
        for name in names
    }
