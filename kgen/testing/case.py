"""One test of one variant: what a case is, and what an operator's adapter must be able to do."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from kgen.testing.memory import Form, Garbage, Placed
from kgen.variants.model import Variant


@dataclass(frozen=True)
class Case:
    """A row of an op spec's `tests` made concrete for one variant. The seed fixes every draw."""

    name: str
    variant: Variant
    values: Mapping[str, Any]

    @property
    def seed(self) -> int:
        return zlib.crc32(f"{self.variant.name}/{self.name}".encode())

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)


@dataclass(frozen=True)
class Inputs:
    """A case in memory: everything a call of the operator takes."""

    case: Case
    placed: Mapping[str, Placed]
    scalars: Mapping[str, float | int]

    def __getitem__(self, name: str) -> Tensor:
        return self.placed[name].tensor


@dataclass(frozen=True)
class Expected:
    """An exact result and how far from it is right; `bound` None means to the bit."""

    value: Tensor
    bound: Tensor | None = None


@dataclass(frozen=True)
class Fault:
    """A way to spoil a call so that it must raise with its outputs untouched."""

    name: str
    spoil: Callable[[Inputs], object]


class Adapter(Protocol):
    """What the harness needs to know of an operator."""

    outputs: tuple[str, ...]

    def shapes(self, name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The cases one row of `tests` stands for: names and values."""

    def materialise(self, case: Case, form: Form, garbage: Garbage) -> Inputs:
        """Tensors of the case; the same values for every form and garbage."""

    def run(self, inputs: Inputs) -> None:
        """Call the public operator so that exactly the case's variant runs."""

    def expect(self, inputs: Inputs) -> Mapping[str, Expected]:
        """The exact results by output name; called before `run`."""

    def faults(self, inputs: Inputs) -> tuple[Fault, ...]:
        """What must be refused before anything is written."""


@dataclass(frozen=True)
class Outcome:
    """How a case went. `problems` is empty where it passed; `skipped` says why it did not run."""

    variant: str
    case: str
    problems: tuple[str, ...] = ()
    skipped: str = ""
    seconds: float = field(default=0.0, compare=False)
