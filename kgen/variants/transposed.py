"""How V reaches its operand registers column by column, where a wave can read that way.

An operand of the second product holds, in one register, two tokens of one dim; memory holds two dims of
one token. A wave that can read tiles of 8 x 8 elements of 16 bits transposed gets the operands as they
are wanted: of each tile, lane l receives rows 2 (l % 4) and 2 (l % 4) + 1 of column l / 4. Four tiles are
read at once, lane l naming the place of row l % 8 of tile l / 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgen.targets.matrix import MatrixInstruction
from kgen.variants.loads import value_fragment
from kgen.variants.operand import OperandPlan

SIDE = 8
"""Rows and columns of a tile."""
TILES = 4
"""Tiles that one read brings."""
LANES = 32


@dataclass(frozen=True)
class TransposedLoads:
    """One read serves `outputs` tiles of output next to one another. Lane l names the row of token
    `tokens[operand][l]`, from dim `dims[l]` of the chunk on."""

    outputs: int
    tokens: tuple[tuple[int, ...], ...]
    dims: tuple[int, ...]

    @property
    def chunk(self) -> int:
        """Dims that a read covers."""
        return self.outputs * SIDE


def plan_transposed(instruction: MatrixInstruction, plan: OperandPlan) -> TransposedLoads | None:
    """The reads for a plan; None where its operand of V does not consist of such tiles."""
    value = value_fragment(instruction, plan)
    halves = value.elements // 2
    if instruction.wave != LANES or value.cols != SIDE or value.elements % 2 or TILES % halves:
        return None
    tokens = []
    for operand in range(plan.operands):
        firsts = _first_tokens(value.cells, plan.tokens[operand * value.rows : (operand + 1) * value.rows])
        if firsts is None:
            return None
        tokens.append(tuple(firsts[lane // SIDE % halves] + lane % SIDE for lane in range(LANES)))
    dims = tuple(lane // SIDE // halves * SIDE for lane in range(LANES))
    return TransposedLoads(TILES // halves, tuple(tokens), dims)


def _first_tokens(
    cells: tuple[tuple[tuple[int, int], ...], ...], tokens: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The first token of each tile that an operand consists of; None where it is no such tile."""
    firsts = tuple(tokens[cells[0][e][0]] for e in range(0, len(cells[0]), 2))
    for lane, held in enumerate(cells):
        for e, (row, col) in enumerate(held):
            if tokens[row] != firsts[e // 2] + lane % 4 * 2 + e % 2 or col != lane // 4:
                return None
    return firsts
