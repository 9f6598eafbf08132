"""The `templates` and `grid` of an operator: what its kernels are rendered from and launched as."""

from __future__ import annotations

from pathlib import Path

from kgen.diagnostics import Collector, choice_hint, nearest
from kgen.spec.check import check_expr
from kgen.spec.model import GridSpec
from kgen.spec.reader import Fields, check_name
from kgen.spec.scope import Scope
from kgen.spec.types import BOOL, INT
from kgen.syntax.yaml import Entry

GROUPS = ("cpu", "gpu")
"""Target families that share templates: the host, and everything that runs waves."""
_SIZES = ("x", "y", "z", "block")


def read_templates(top: Fields, root: Path | None, found: Collector) -> dict[str, str]:
    """Template paths by group. With `root`, the templates folder, that each one exists."""
    node = top.node("templates")
    if node is None:
        return {}
    fields = Fields(node, "'templates'", found, optional=GROUPS, at=top.keys["templates"].span)
    if fields.ok and not fields.keys:
        found.add("K214", "an operator has at least one template", fields.span, "keys: cpu, gpu")
    paths = {group: fields.text(group) for group in fields.keys}
    for group, path in paths.items():
        if root is not None and path and not _is_template(root, path):
            near = nearest(path, [str(each.relative_to(root)) for each in sorted(root.rglob("*.j2"))])
            hint = f"did you mean '{near}'?" if near else "a path below templates/, ending in .j2"
            found.add("K216", f"there is no template '{path[:80]}'", fields.where(group), hint)
    return paths


def _is_template(root: Path, path: str) -> bool:
    relative = Path(path)
    return not relative.is_absolute() and ".." not in relative.parts and (root / relative).is_file()


def read_grids(top: Fields, scope: Scope, call: Scope, found: Collector) -> dict[str, GridSpec]:
    """Launches by name, in order: a group (`gpu`), or a group and a kernel's suffix
    (`gpu_combine`). The grid speaks of parameters, shapes and facts; `block`, `lds` and `when` of
    parameters alone."""
    grids = {}
    for entry in top.entries("grid"):
        _check_grid_name(entry, found)
        fields = Fields(
            entry.value, "a grid", found, required=_SIZES, optional=("when", "lds"), at=entry.key.span
        )
        sizes = {key: size for key in _SIZES if (size := fields.expr(key)) is not None}
        when, lds = fields.expr("when"), fields.expr("lds")
        for key, size in sizes.items():
            check_expr(size, scope if key == "block" else call, found, INT)
        if when is not None:
            check_expr(when, scope, found, BOOL)
        if lds is not None:
            check_expr(lds, scope, found, INT)
        if len(sizes) == len(_SIZES):
            grids[entry.key.text] = GridSpec(entry.key.text, **sizes, when=when, lds=lds)
    return grids


def _check_grid_name(entry: Entry, found: Collector) -> None:
    name = entry.key.text
    check_name(entry.key, "a grid", found)
    if not any(name == group or name.startswith(f"{group}_") for group in GROUPS):
        known = [*GROUPS, *(f"{group}_<kernel>" for group in GROUPS)]
        found.add("K201", f"'{name[:40]}' names no kernel", entry.key.span, choice_hint(name, known))
