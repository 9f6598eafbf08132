"""The axes of a build: checked against the operators, and multiplied out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from kgen.diagnostics import Collector, Span, choice_hint
from kgen.manifest import Scalar
from kgen.spec.build import NATIVE
from kgen.spec.model import BuildAxis, BuildEntry, BuildSpec, OpSpec
from kgen.targets.host import arch_choices
from kgen.variants.combination import Targets, no_value
from kgen.variants.values import check_value

if TYPE_CHECKING:
    from kgen.spec.catalog import Catalog

MAX_PRODUCT = 100_000
"""Combinations of one build. More is a mistake in the axes, not a wish."""


def check_build(build: BuildSpec, catalog: Catalog, native: str, found: Collector) -> None:
    """Report every fault of a build's axes (K302 to K307) before anything is multiplied out."""
    choices = arch_choices(catalog.targets)
    if native not in choices:
        found.add("K302", f"'{native}' is no target", hint=choice_hint(native, choices))
    for entry in build.entries:
        op = catalog.ops.get(entry.op)
        if op is None:
            hint = choice_hint(entry.op, sorted(catalog.ops))
            found.add("K303", f"there is no operator '{entry.op}'", entry.span, hint)
            continue
        named = {axis.name for axis in entry.axes}
        for param in op.params:
            if param.name not in named and param.default is None:
                missing = no_value(op, param)
                found.add(missing.code, missing.message, entry.span, missing.hint)
        for axis in entry.axes:
            _check_axis(axis, op, catalog.targets, native, found)
    size = sum(size_of(entry) for entry in build.entries)
    if size > MAX_PRODUCT:
        limit = f"at most {MAX_PRODUCT:,} are expanded"
        message = f"the axes of '{build.name}' multiply to {size:,} combinations; {limit}"
        found.add("K307", message, build.span, "drop values, or split the build")


def size_of(entry: BuildEntry) -> int:
    """The number of combinations of an entry."""
    return prod(len(axis.values) for axis in entry.axes)


def assignments(entry: BuildEntry, native: str) -> Iterator[Mapping[str, Scalar]]:
    """Every combination of an entry's axes, `native` replaced by the target it stands for."""
    names = [axis.name for axis in entry.axes]
    values = [[_resolve(value, native) for value in axis.values] for axis in entry.axes]
    for row in product(*values):
        yield dict(zip(names, row, strict=True))


def _resolve(value: Scalar, native: str) -> Scalar:
    return native if value == NATIVE else value


def _check_axis(axis: BuildAxis, op: OpSpec, targets: Targets, native: str, found: Collector) -> None:
    names = [p.name for p in op.params]
    if axis.name not in names:
        hint = choice_hint(axis.name, names)
        found.add("K303", f"{op.name} has no parameter '{axis.name}'", axis.span, hint)
        return
    if not axis.values:
        found.add("K304", f"the axis {axis.name} has no values", axis.span)
    param = op.param(axis.name)
    seen: dict[Scalar, Scalar] = {}
    for value, span in zip(axis.values, axis.value_spans, strict=True):
        resolved = _resolve(value, native) if param.type == "target" else value
        fault = check_value(param, resolved, op, targets, span)
        if fault is not None:
            found.extend([fault])
        elif resolved in seen:
            _report_twice(axis, value, seen[resolved], span, found)
        else:
            seen[resolved] = value


def _report_twice(axis: BuildAxis, value: Scalar, before: Scalar, span: Span, found: Collector) -> None:
    same = (
        f"'{value}' and '{before}' are the same target here" if value != before else f"{value} is there twice"
    )
    found.add("K308", f"the axis {axis.name} names one value twice: {same}", span, "drop one of them")
