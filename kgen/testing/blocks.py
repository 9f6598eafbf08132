"""Cases of copy_blocks and swap_blocks: whole pages move, all others stay as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from kgen import ops, reference
from kgen.testing.case import Case, Expected, Fault, Inputs
from kgen.testing.memory import Form, Garbage, Placed, place


class CopyBlocks:
    """Values of a case: blocks, page_bytes, pairs. One source serves two destinations."""

    outputs: tuple[str, ...] = ("cache",)

    def shapes(self, name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield name, values

    def materialise(self, case: Case, form: Form, garbage: Garbage) -> Inputs:
        generator, pairs = case.generator(), case.values["pairs"]
        ids = torch.randperm(case.values["blocks"], generator=generator)
        sources = ids[torch.arange(pairs).clamp(max=max(pairs - 2, 0))]
        mapping = torch.stack([sources, ids[pairs : 2 * pairs]], dim=1)
        placed = {"block_mapping": place(mapping, form, garbage)}
        placed |= {name: self._pages(case, form, garbage, generator) for name in self._caches()}
        return Inputs(case, placed, {})

    def run(self, inputs: Inputs) -> None:
        arch = str(inputs.case.variant.params["arch"])
        ops.copy_blocks(inputs["cache"], inputs["block_mapping"], arch=arch)

    def expect(self, inputs: Inputs) -> Mapping[str, Expected]:
        return {"cache": Expected(reference.copy_blocks(inputs["cache"], inputs["block_mapping"]))}

    def faults(self, inputs: Inputs) -> tuple[Fault, ...]:
        blocks = inputs[self.outputs[0]].shape[0]
        return (
            Fault("negative source", _set(0, -1)),
            Fault("source past the pool", _set(0, blocks)),
            Fault("destination past the pool", _set(1, blocks)),
            Fault("destination named twice", lambda to: to["block_mapping"][:, 1].fill_(0)),
            Fault("destination that is a source", _overlap),
        )

    def _caches(self) -> tuple[str, ...]:
        return self.outputs

    def _pages(self, case: Case, form: Form, garbage: Garbage, generator: torch.Generator) -> Placed:
        shape = (case.values["blocks"], case.values["page_bytes"])
        return place(torch.randint(256, shape, generator=generator, dtype=torch.uint8), form, garbage)


class SwapBlocks(CopyBlocks):
    """The same between two tensors; a page may be a source and a destination, being two pages."""

    outputs: tuple[str, ...] = ("destination",)

    def run(self, inputs: Inputs) -> None:
        arch = str(inputs.case.variant.params["arch"])
        ops.swap_blocks(inputs["source"], inputs["destination"], inputs["block_mapping"], arch=arch)

    def expect(self, inputs: Inputs) -> Mapping[str, Expected]:
        moved = reference.swap_blocks(inputs["source"], inputs["destination"], inputs["block_mapping"])
        return {"destination": Expected(moved)}

    def faults(self, inputs: Inputs) -> tuple[Fault, ...]:
        return super().faults(inputs)[:4]

    def _caches(self) -> tuple[str, ...]:
        return ("source", "destination")


def _set(side: int, block: int) -> Any:
    def spoil(inputs: Inputs) -> None:
        inputs["block_mapping"][-1, side].fill_(block)

    return spoil


def _overlap(inputs: Inputs) -> None:
    mapping: Tensor = inputs["block_mapping"]
    mapping[-1, 1].copy_(mapping[0, 0])
