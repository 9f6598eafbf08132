"""What a copy engine brings of a variant's tensors: as data for dispatch, and as C++ for the simulator.

An argument of the operator says how many of its rows are a box (`box`), and how many dims (`box_dims`); how a
tensor lies is then a parameter of the variant's kernel, behind the argument block.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgen.manifest import Box
from kgen.render.index import Indexer
from kgen.spec.evaluate import evaluate_expr
from kgen.spec.model import ArgumentSpec
from kgen.syntax.ast import Expr
from kgen.variants.model import Variant
from kgen.variants.rules import family_group
from kgen.variants.scope import Scope


@dataclass(frozen=True)
class BoxText:
    """A tensor that comes in boxes: its name, and its BoxMap on the simulator as C++ over the block `a`."""

    name: str
    map: str


def boxes_of(variant: Variant) -> tuple[Box, ...]:
    """The tensors that come in boxes, in the order of the arguments; none on a CPU."""
    return tuple(Box(argument.name, rows, dims) for argument, rows, dims in _boxed(variant))


def box_texts(variant: Variant) -> tuple[BoxText, ...]:
    """The same for templates."""
    indexer = Indexer(variant)
    return tuple(BoxText(argument.name, _map(indexer, argument)) for argument, _, _ in _boxed(variant))


def _boxed(variant: Variant) -> list[tuple[ArgumentSpec, int, int]]:
    """The arguments that come in boxes, with the rows and dims of one."""
    if family_group(variant.target) == "cpu":
        return []
    scope = Scope(variant.op, variant.params, variant.target)

    def side(expr: Expr | None) -> int:
        return 0 if expr is None else int(evaluate_expr(expr, scope))

    boxed = [(argument, side(argument.box), side(argument.box_dims)) for argument in variant.op.arguments]
    return [(argument, rows, dims) for argument, rows, dims in boxed if rows > 0]


def _map(indexer: Indexer, argument: ArgumentSpec) -> str:
    word, axis = f"a.{argument.name}", "token" if argument.kind == "cache" else argument.axes[0].name
    block = f"{word}_stride_block" if argument.kind == "cache" else "0"
    rows = indexer.size(argument.name, axis)
    return (
        f"{word}, {indexer.extent(argument.name)}, {block}, {word}_stride_head, {word}_stride_{axis}, {rows}"
    )
