"""How a GPU variant is launched: the grids of its operator, as data for dispatch and as C++.

The grid named after the family group (`gpu`) is the kernel with the variant's own name. A grid
`gpu_combine` is a second kernel `<name>_combine`, launched after it where its `when` holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.algebra.simplify import simplify
from kgen.manifest import Code, Launch, Scalar
from kgen.render.boxes import BoxText, box_texts, boxes_of
from kgen.render.cpp import print_cpp
from kgen.spec.evaluate import evaluate_expr
from kgen.spec.model import GridSpec
from kgen.syntax.ast import Attr, Bool, Expr, Float, Int, Name, Str, names_of, rebuild, to_code
from kgen.variants.model import Variant
from kgen.variants.resources import launched
from kgen.variants.rules import family_group
from kgen.variants.scope import Scope


@dataclass(frozen=True)
class Kernel:
    """One launch as a template prints it: x, y and z are C++ over the argument block `a`."""

    symbol: str
    x: str
    y: str
    z: str
    block: int
    boxes: tuple[BoxText, ...] = ()


def launch_of(variant: Variant) -> Launch | None:
    """The launches in order; None on a CPU, whose kernels share out the work themselves."""
    chain: Launch | None = None
    grids = _grids(variant)
    for grid in reversed(grids):
        codes = (_code(variant, grid.x), _code(variant, grid.y), _code(variant, grid.z))
        boxes = boxes_of(variant) if grid is grids[0] else ()
        lds = dynamic_lds(variant)
        if lds and grid.lds is not None:
            lds = _figure(variant, grid.lds)
        chain = Launch(codes, _figure(variant, grid.block), lds, _symbol(variant, grid), boxes, then=chain)
    return chain


def dynamic_lds(variant: Variant) -> int:
    """Bytes of shared memory that come with the launch: all of them where a kernel cannot declare as many."""
    chip, planned = variant.target.chip, variant.resources.lds_bytes if variant.resources else 0
    static = chip.figures["lds_static"] if chip else 0
    return planned if static and planned > static and not variant.simulated else 0


def _code(variant: Variant, expr: Expr) -> Code:
    """An extent as dispatch computes it, from facts alone."""
    return to_code(_settled(variant, expr, ""))


def kernels_of(variant: Variant) -> tuple[Kernel, ...]:
    """The same as C++ text."""
    boxes = box_texts(variant)
    return tuple(_kernel(variant, grid, () if i else boxes) for i, grid in enumerate(_grids(variant)))


def _kernel(variant: Variant, grid: GridSpec, boxes: tuple[BoxText, ...]) -> Kernel:
    x, y, z = (_text(variant, extent) for extent in (grid.x, grid.y, grid.z))
    return Kernel(_symbol(variant, grid), x, y, z, _figure(variant, grid.block), boxes)


def _grids(variant: Variant) -> list[GridSpec]:
    if family_group(variant.target) == "cpu":
        return []
    return launched(variant.op, Scope(variant.op, variant.params, variant.target))


def _symbol(variant: Variant, grid: GridSpec) -> str:
    _, mark, suffix = grid.name.partition("_")
    return f"{variant.name}{mark}{suffix}"


def _figure(variant: Variant, expr: Expr) -> int:
    return int(evaluate_expr(expr, Scope(variant.op, variant.params, variant.target)))


def _text(variant: Variant, expr: Expr) -> str:
    settled = _settled(variant, expr, "a.")
    return print_cpp(settled, dict.fromkeys(names_of(settled), (0, None)))


def _settled(variant: Variant, expr: Expr, block: str) -> Expr:
    """An extent as an expression over facts, whose names follow that of the block."""
    filled = _fill(expr, Scope(variant.op, variant.params, variant.target), block)
    return simplify(filled, dict.fromkeys(names_of(filled), (0, None)))


def _fill(expr: Expr, values: Mapping[str, Scalar], block: str) -> Expr:
    """Parameters, target fields and derived values by their values; what is left is a fact."""
    if isinstance(expr, Name | Attr):
        name = expr.dotted if isinstance(expr, Attr) else expr.name
        if name not in values:
            return Name(f"{block}{name}")
        return _literal(values[name])
    return rebuild(expr, lambda part: _fill(part, values, block))


def _literal(value: Scalar) -> Expr:
    if isinstance(value, bool):
        return Bool(value)
    if isinstance(value, str):
        return Str(value)
    return Float(value) if isinstance(value, float) else Int(value)
