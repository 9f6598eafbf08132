"""Every operator, layout and target that is known, with look-ups that help."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from kgen.diagnostics import Collector, Diagnostic, KgenError, Span, choice_hint
from kgen.layout import Layout
from kgen.spec.model import OpSpec, TargetSpec, VariantSpec
from kgen.spec.variants import attach

T = TypeVar("T")


@dataclass(frozen=True)
class Catalog:
    ops: Mapping[str, OpSpec]
    layouts: Mapping[str, Layout]
    targets: Mapping[str, TargetSpec]

    def with_masks(
        self, masks: Mapping[str, VariantSpec], found: Collector | None = None, used: Collection[str] = ()
    ) -> Catalog:
        """The catalog whose operators also have the masks of a build. Faults of the operators in `used`
        go to `found`."""
        if not masks:
            return self
        told = Collector() if found is None else found
        ops = {n: attach(op, masks, told if n in used else Collector()) for n, op in self.ops.items()}
        return replace(self, ops=ops)

    def op(self, name: str, span: Span | None = None) -> OpSpec:
        """The operator of that name; `KgenError` (K205) with the nearest one otherwise."""
        return _find(self.ops, name, "operator", span)

    def layout(self, name: str, span: Span | None = None) -> Layout:
        """The layout of that name; `KgenError` (K205) with the nearest one otherwise."""
        return _find(self.layouts, name, "layout", span)

    def target(self, name: str, span: Span | None = None) -> TargetSpec:
        """The target of that name; `KgenError` (K205) with the nearest one otherwise."""
        return _find(self.targets, name, "target", span)


def _find(known: Mapping[str, T], name: str, what: str, span: Span | None) -> T:
    if name in known:
        return known[name]
    hint = choice_hint(name, list(known))
    raise KgenError(Diagnostic("K205", f"unknown {what} '{name}'", span, hint))
