"""How K and V reach their operand registers where a wave can read tiles of shared memory.

A tile is 8 x 8 elements of 16 bits. A wave reads four at once: lane l names the place of row l % 8 of tile
l / 8, and receives of each tile two elements, columns 2 (l % 4) and 2 (l % 4) + 1 of row l / 4, or, read
transposed, those rows of that column. The first suits an operand of K, where memory and product agree that
dims lie next to one another; the second one of V, which the product wants token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kgen.targets.matrix import Fragment, MatrixInstruction
from kgen.variants.loads import key_fragment, value_fragment
from kgen.variants.operand import OperandPlan

SIDE = 8
"""Rows and columns of a tile."""
TILES = 4
"""Tiles that one read brings."""
LANES = 32

Cell = tuple[int, int]


@dataclass(frozen=True)
class TileLoads:
    """One read serves `outputs` products next to one another, of 8 tokens each for K and of 8 dims for V.
    Lane l names the row of token `tokens[operand][l]`, from dim `dims[l]` on; K has one operand."""

    outputs: int
    tokens: tuple[tuple[int, ...], ...]
    dims: tuple[int, ...]


def plan_tiles(instruction: MatrixInstruction, plan: OperandPlan) -> tuple[TileLoads, TileLoads] | None:
    """The reads of K and of V; None where their operands do not consist of such tiles."""
    key, value = key_fragment(instruction, plan), value_fragment(instruction, plan)
    halves = value.elements // 2
    fits = key.elements == value.elements == 2 * halves and TILES % max(halves, 1) == 0
    fits = fits and plan.accumulators % (TILES // halves) == 0
    if not fits or instruction.wave != LANES or key.rows != SIDE or value.cols != SIDE:
        return None
    if not _consists(key, _key_cell):
        return None
    firsts = []
    for operand in range(plan.operands):
        tokens = plan.tokens[operand * value.rows : (operand + 1) * value.rows]
        found = tuple(tokens[value.cells[0][e][0]] for e in range(0, value.elements, 2))
        cells = tuple(tuple((tokens[row], col) for row, col in lane) for lane in value.cells)
        if not _consists(Fragment(value.rows, value.cols, cells), partial(_value_cell, found)):
            return None
        firsts.append(found)
    tiles = [(lane // SIDE // halves, lane // SIDE % halves, lane % SIDE) for lane in range(LANES)]
    keys = TileLoads(
        TILES // halves,
        (tuple(output * SIDE + row for output, _, row in tiles),),
        tuple(half * SIDE for _, half, _ in tiles),
    )
    values = TileLoads(
        TILES // halves,
        tuple(tuple(first[half] + row for _, half, row in tiles) for first in firsts),
        tuple(output * SIDE for output, _, _ in tiles),
    )
    return keys, values


def _key_cell(lane: int, e: int) -> Cell:
    """The token and the dim that a lane receives as element e, read as they lie."""
    return lane // 4, SIDE * (e // 2) + lane % 4 * 2 + e % 2


def _value_cell(first: Sequence[int], lane: int, e: int) -> Cell:
    """The same read transposed, where half h of an operand begins with token `first[h]`."""
    return first[e // 2] + lane % 4 * 2 + e % 2, lane // 4


def _consists(fragment: Fragment, cell: Callable[[int, int], Cell]) -> bool:
    """Whether element e of each lane is the cell that `cell(lane, e)` says."""
    return all(
        held == cell(lane, e) for lane, cells in enumerate(fragment.cells) for e, held in enumerate(cells)
    )
