"""What the matrix yields: variants that are accepted, and rejections that say why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.diagnostics import Span
from kgen.manifest import Scalar
from kgen.spec.model import OpSpec, TargetSpec, VariantSpec
from kgen.variants.resources import Resources


@dataclass(frozen=True)
class Variant:
    """One accepted combination. `params` holds every parameter of the operator, defaults filled
    in; `lets` the derived values. Its name is unique within the operator."""

    name: str
    op: OpSpec
    target: TargetSpec
    params: Mapping[str, Scalar]
    lets: Mapping[str, Scalar]
    simulated: bool = False  # arch was sim:<target>
    resources: Resources | None = None  # what it will take of a GPU; None on a CPU

    @property
    def mask(self) -> VariantSpec | None:
        """The mask and score it applies; None of an operator that has none to choose from."""
        holder = next((param.name for param in self.op.params if param.type == "variant"), None)
        return self.op.variants[str(self.params[holder])] if holder is not None else None


@dataclass(frozen=True)
class Rejected:
    """One combination that is not generated. `rule` is the rule's text, `where` its place,
    `figures` what was computed (for limits)."""

    name: str
    op: str
    params: Mapping[str, Scalar]
    rule: str
    because: str
    where: Span | None
    figures: Mapping[str, Scalar]


@dataclass(frozen=True)
class Matrix:
    """The whole product of a build: `len(accepted) + len(rejected) == product`."""

    build: str
    accepted: tuple[Variant, ...]
    rejected: tuple[Rejected, ...]
    product: int
