"""A lane map as text: for each cell of an operand, the lane and element that hold it."""

from __future__ import annotations

from kgen.spec.chip import OPERANDS
from kgen.targets.matrix import Cell, Fragment, MatrixInstruction


def draw_instruction(one: MatrixInstruction) -> str:
    """The three operands of an instruction, one below the other."""
    head = [f"{one.name}: D[{one.m} x {one.n}] = A[{one.m} x {one.k}] B[{one.k} x {one.n}] + D"]
    head.append(f"{one.wave} lanes; A and B are {one.dtype}, D is f32; a cell shows lane.element")
    parts = ["\n".join(head)]
    for name, (rows, cols) in OPERANDS.items():
        operand: Fragment = getattr(one, name)
        title = f"{name.upper()}: {rows} down, {cols} across; {operand.elements} elements a lane"
        parts.append(f"{title}\n{draw(operand)}")
    return "\n\n".join(parts)


def draw(operand: Fragment) -> str:
    """The table of one operand, with its row and column numbers at the edges."""
    holder = holders(operand)
    width = max(len(text) for text in holder.values())
    side = len(str(operand.rows - 1))
    head = " ".join(f"{col:>{width}}" for col in range(operand.cols))
    lines = [f"{'':{side}} | {head}", f"{'-' * side}-+-{'-' * len(head)}"]
    for row in range(operand.rows):
        cells = " ".join(f"{holder[row, col]:>{width}}" for col in range(operand.cols))
        lines.append(f"{row:>{side}} | {cells}")
    return "\n".join(lines)


def holders(operand: Fragment) -> dict[Cell, str]:
    """`lane.element` of every cell of a sound map."""
    return {cell: f"{lane}.{e}" for lane, held in enumerate(operand.cells) for e, cell in enumerate(held)}
