"""The sections of a target, checked: numbers; of a GPU figures, occupancy, memory, instructions."""

from __future__ import annotations

from collections.abc import Mapping

from kgen.diagnostics import Collector
from kgen.spec.check import check_expr
from kgen.spec.chip import (
    FIGURES,
    FP8_CONVERSIONS,
    FP8_FLAVOURS,
    INPUTS,
    KERNEL_FIGURES,
    OPERANDS,
    ROUNDINGS,
    ChipSpec,
    InstructionSpec,
    NumberSpec,
    OccupancyRule,
    OperandSpec,
)
from kgen.spec.reader import Fields, as_int, check_name, describe, expression
from kgen.spec.scope import Symbol
from kgen.spec.types import INT
from kgen.syntax.ast import Expr, Int
from kgen.syntax.yaml import Entry, Node

_LANE_SCOPE = {"lane": Symbol(INT, "lane"), "e": Symbol(INT, "element")}
_MEMORY = ("load_bytes", "tile_reads", "crossed_reads", "box_copies", "group_products", "descriptor_word3")
SIDES = ("m", "n", "k")
MAX_SIDE = 256
"""Rows, columns and depth of an instruction at most."""


def read_chip(fields: Fields, wave: int) -> ChipSpec:
    """The chip of a target, from the sections of its mapping."""
    found = fields.found
    memory = _section(fields, "memory", optional=_MEMORY)
    return ChipSpec(
        figures=_figures(fields),
        occupancy=tuple(_rule(entry, found) for entry in fields.entries("occupancy")),
        instructions=_instructions(fields, wave),
        load_bytes=_widths(memory),
        tile_reads=memory.boolean("tile_reads") if memory else False,
        crossed_reads=memory.boolean("crossed_reads") if memory else False,
        box_copies=memory.boolean("box_copies") if memory else False,
        group_products=memory.boolean("group_products") if memory else False,
        descriptor_word3=memory.integer("descriptor_word3", low=0) if memory else None,
    )


def read_numbers(fields: Fields) -> NumberSpec:
    """How a target rounds; what is not said is as in `NumberSpec`."""
    numbers = _section(fields, "numbers", optional=("bf16_rounding", "fp8", "fp8_conversion"))
    if numbers is None:
        return NumberSpec()
    return NumberSpec(
        bf16_rounding=numbers.choice("bf16_rounding", ROUNDINGS, NumberSpec.bf16_rounding),
        fp8=numbers.choice("fp8", FP8_FLAVOURS, NumberSpec.fp8),
        fp8_conversion=numbers.choice("fp8_conversion", FP8_CONVERSIONS, NumberSpec.fp8_conversion),
    )


def _section(fields: Fields, key: str, optional: tuple[str, ...]) -> Fields | None:
    node = fields.node(key)
    return None if node is None else Fields(node, f"'{key}'", fields.found, optional=optional)


def _figures(fields: Fields) -> Mapping[str, int]:
    node = fields.node("chip")
    if node is None:
        return {}
    required = [name for name, default in FIGURES.items() if default is None]
    optional = [name for name in FIGURES if name not in required]
    chip = Fields(node, "a chip", fields.found, required=required, optional=optional)
    return {
        name: chip.integer(name, default if default is not None else 1, low=0 if default == 0 else 1) or 0
        for name, default in FIGURES.items()
    }


def _widths(memory: Fields | None) -> tuple[int, ...]:
    if memory is None:
        return ()
    widths = []
    for node in memory.items("load_bytes", filled=True):
        value = as_int(node)
        if value is None or value < 1:
            memory.found.add("K203", f"a width is a whole number of bytes; found {describe(node)}", node.span)
        else:
            widths.append(value)
    return tuple(widths)


def _rule(entry: Entry, found: Collector) -> OccupancyRule:
    scope = {name: Symbol(INT, "figure") for name in (*FIGURES, *KERNEL_FIGURES)}
    blocks = _checked(entry.value, scope, found)
    check_name(entry.key, "an occupancy rule", found)
    return OccupancyRule(entry.key.text, blocks, entry.key.span)


def _checked(node: Node, scope: Mapping[str, Symbol], found: Collector) -> Expr:
    """An int expression over `scope`; a faulty one is reported and 0 stands for it."""
    expr = expression(node, found)
    if expr is None:
        return Int(0)
    check_expr(expr, scope, found, INT)
    return expr


def _instructions(fields: Fields, wave: int) -> Mapping[str, InstructionSpec]:
    read = (_instruction(entry, wave, fields.found) for entry in fields.entries("matrix"))
    return {one.name: one for one in read if one is not None}


def _instruction(entry: Entry, wave: int, found: Collector) -> InstructionSpec | None:
    """One instruction; None where it is so faulty that its lane maps mean nothing."""
    check_name(entry.key, "a matrix instruction", found)
    before = len(found.diagnostics)
    fields = Fields(
        entry.value,
        "a matrix instruction",
        found,
        required=("dtype", "shape", *OPERANDS, "asm"),
        optional=("builtins", "tail", "cycles"),
        at=entry.key.span,
    )
    sides = _shape(fields)
    dtype = fields.choice("dtype", tuple(INPUTS))
    extents = {"a": ("m", "k"), "b": ("k", "n"), "d": ("m", "n")}
    operands = {}
    for name in OPERANDS:
        node = fields.node(name)
        if node is not None:
            cells = sides[extents[name][0]] * sides[extents[name][1]] if sides else None
            operands[name] = _operand(node, name, cells, wave, found)
    builtins, tail, asm = fields.words("builtins"), fields.words("tail"), fields.text("asm")
    cycles = fields.integer("cycles", 0, low=0) or 0
    if len(found.diagnostics) > before or not sides:
        return None
    m, n, k = (sides[side] for side in SIDES)
    place = (entry.key.text, entry.key.span)
    return InstructionSpec(*place, dtype, m, n, k, operands, asm, builtins, tail, cycles)


def _shape(fields: Fields) -> Mapping[str, int]:
    """m, n and k; nothing where they are not all there."""
    items = fields.items("shape")
    if items and len(items) != len(SIDES):
        fields.found.add("K203", f"'shape' is [m, n, k]; found {len(items)} values", fields.where("shape"))
        return {}
    sides = {}
    for name, node in zip(SIDES, items, strict=False):
        value = as_int(node)
        if value is None or not 1 <= value <= MAX_SIDE:
            message = f"{name} is a whole number from 1 to {MAX_SIDE}; found {describe(node)}"
            fields.found.add("K203", message, node.span)
        else:
            sides[name] = value
    return sides if len(sides) == len(SIDES) else {}


def _operand(node: Node, name: str, cells: int | None, wave: int, found: Collector) -> OperandSpec:
    """A lane map. Its elements a lane follow from the shape; where stated, they must agree."""
    row, col = OPERANDS[name]
    fields = Fields(node, f"operand '{name}'", found, required=(row, col), optional=("elements",))
    stated = fields.integer("elements", low=1)
    if cells is not None and cells % wave:
        message = f"the {cells} cells of operand '{name}' do not divide evenly among {wave} lanes"
        found.add("K219", message, node.span, "each cell is held by exactly one lane")
    elif cells is not None and stated is not None and stated * wave != cells:
        message = f"operand '{name}' has {cells} cells: {cells // wave} elements a lane, not {stated}"
        found.add("K219", message, fields.where("elements"))
    exprs = [_lane_expr(fields, axis) for axis in (row, col)]
    return OperandSpec(exprs[0], exprs[1], node.span, stated)


def _lane_expr(fields: Fields, axis: str) -> Expr:
    node = fields.node(axis)
    return _checked(node, _LANE_SCOPE, fields.found) if node is not None else Int(0)
