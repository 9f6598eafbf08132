"""From the axes of a build to variants: every combination is accepted or rejected by a rule.

`len(accepted) + len(rejected) == product` holds for every build. The outcome depends on what the
build says and on what `native` stands for, never on the order in which it is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kgen.diagnostics import Collector, Diagnostic, KgenError, choice_hint
from kgen.manifest import Scalar
from kgen.spec.model import BuildEntry, BuildSpec, OpSpec
from kgen.variants.axes import assignments, check_build
from kgen.variants.combination import Targets, combine, no_value
from kgen.variants.model import Matrix, Rejected, Variant
from kgen.variants.rules import settle
from kgen.variants.values import check_value

if TYPE_CHECKING:
    from kgen.spec.catalog import Catalog

Cell = Variant | Rejected


def expand(build: BuildSpec, catalog: Catalog, native: str) -> Matrix:
    """The whole matrix of a build; `native` is the target that word stands for.

    Raises KgenError with every fault of the build: values no parameter has, parameters without a
    value, two entries that name one variant, entries of which nothing is left, a product too large.
    """
    catalog = catalog.with_masks(build.masks)
    found = Collector()
    check_build(build, catalog, native, found)
    found.check()
    cells: list[Cell] = []
    owner: dict[str, BuildEntry] = {}
    for entry in build.entries:
        row = _cells(entry, catalog, native, found)
        _check_names(row, entry, owner, found)
        _check_any_left(row, entry, found)
        cells += row
    found.check()
    cells.sort(key=lambda cell: _rank(cell, catalog))
    return Matrix(
        build=build.name,
        accepted=tuple(cell for cell in cells if isinstance(cell, Variant)),
        rejected=tuple(cell for cell in cells if isinstance(cell, Rejected)),
        product=len(cells),
    )


def make_variant(op: OpSpec, params: Mapping[str, Scalar], catalog: Catalog) -> Variant | Rejected:
    """The variant of one combination, or the rule that rejects it. Defaults fill what `params`
    leaves out. Raises KgenError (K303 to K305) for a name or a value the operator does not have."""
    check_params(op, params, catalog.targets)
    missing = [no_value(op, p) for p in op.params if p.name not in params and p.default is None]
    if missing:
        raise KgenError(missing)
    return settle(combine(op, params, catalog.targets), catalog.targets)


def check_params(op: OpSpec, params: Mapping[str, Scalar], targets: Targets) -> None:
    """Raise KgenError (K303, K304) for every name or value that the operator does not have."""
    found = Collector()
    known = [p.name for p in op.params]
    for name, value in params.items():
        if name not in known:
            found.add("K303", f"{op.name} has no parameter '{name}'", hint=choice_hint(name, known))
            continue
        fault = check_value(op.param(name), value, op, targets)
        found.extend([fault] if fault else [])
    found.check()


def _cells(entry: BuildEntry, catalog: Catalog, native: str, found: Collector) -> list[Cell]:
    """What becomes of each combination of an entry. One for which the spec's own arithmetic has
    no result is a fault of the spec, and is reported once."""
    op = catalog.ops[entry.op]
    row: list[Cell] = []
    faults: dict[tuple[object, ...], tuple[Diagnostic, Mapping[str, Scalar]]] = {}
    for params in assignments(entry, native):
        try:
            row.append(settle(combine(op, params, catalog.targets), catalog.targets))
        except KgenError as error:
            for fault in error.diagnostics:
                faults.setdefault((fault.code, fault.span, fault.message), (fault, params))
    for fault, params in faults.values():
        values = ", ".join(f"{name} = {value}" for name, value in params.items())
        found.add(fault.code, fault.message, fault.span, fault.hint, (f"for {values}",))
    return row


def _check_names(
    row: Sequence[Cell], entry: BuildEntry, owner: dict[str, BuildEntry], found: Collector
) -> None:
    """No two combinations of a build may have one name: they would be one kernel."""
    clashes: dict[int, str] = {}
    for cell in row:
        before = owner.setdefault(cell.name, entry)
        if before is not entry:
            clashes.setdefault(id(before), cell.name)
    for name in clashes.values():
        message = f"{name} is already in this build"
        found.add(
            "K308", message, entry.span, f"the entry at {owner[name].span} has it too; drop it in one of them"
        )
    counts = Counter(cell.name for cell in row)
    for name in [name for name, count in counts.items() if count > 1][:1]:
        hint = "give each parameter a tag that tells its values apart"
        found.add("K308", f"two combinations of this entry are named {name}", entry.span, hint)


def _check_any_left(row: Sequence[Cell], entry: BuildEntry, found: Collector) -> None:
    rejected = [cell for cell in row if isinstance(cell, Rejected)]
    if not row or len(rejected) < len(row):
        return
    (rule, because), count = Counter((r.rule, r.because) for r in rejected).most_common(1)[0]
    first = next(r for r in rejected if r.rule == rule)
    figures = ", ".join(f"{name} = {value}" for name, value in first.figures.items())
    found.add(
        "K309",
        f"nothing is left of this entry: all {len(row)} combinations of {entry.op} are rejected",
        entry.span,
        f"'{rule}' rejects {count} of them: {because}",
        (f"the rule is at {first.where}", f"for {first.name}: {figures}"),
    )


def _rank(cell: Cell, catalog: Catalog) -> tuple[object, ...]:
    """The place of a cell in the matrix: by operator, then by its parameters in spec order, each in
    the order its values are listed, or by size, or by name."""
    op = cell.op if isinstance(cell, Variant) else catalog.ops[cell.op]
    places: list[object] = [op.name]
    for param in op.params:
        value = cell.params[param.name]
        listed = value in param.values
        places.append((0, param.values.index(value)) if listed else (1, value))
    return tuple(places)
