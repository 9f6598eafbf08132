"""Matrix instructions as data: the shape, and which cell of each operand a register holds.

An instruction computes D[m x n] = A[m x k] B[k x n] + D across one wave. An operand is a table
over lanes and the elements of a lane's register vector; `Fragment.cells[lane][element]` is the
(row, column) held there, for A (row, k), for B (k, col), for D (row, col).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

Cell = tuple[int, int]


@dataclass(frozen=True)
class Fragment:
    """One operand of an instruction, spread over the registers of a wave."""

    rows: int
    cols: int
    cells: tuple[tuple[Cell, ...], ...]

    @property
    def wave(self) -> int:
        """Lanes that hold it."""
        return len(self.cells)

    @property
    def elements(self) -> int:
        """Elements a lane holds."""
        return len(self.cells[0])

    def faults(self) -> tuple[str, ...]:
        """Why the map is no bijection between (lane, element) and cells; empty when it is one."""
        held = [cell for lane in self.cells for cell in lane]
        every = {(r, c) for r in range(self.rows) for c in range(self.cols)}
        found = []
        if outside := sorted(set(held) - every):
            found.append(f"{_listed(outside)} lie outside {self.rows} x {self.cols}")
        if missing := sorted(every - set(held)):
            found.append(f"{_listed(missing)} are held by no lane")
        counts = Counter(held)
        if twice := sorted(cell for cell, count in counts.items() if count > 1):
            found.append(f"{_listed(twice)} are held more than once")
        return tuple(found)

    def transposed(self) -> Fragment:
        """The same registers, read with rows and columns exchanged."""
        swapped = tuple(tuple((c, r) for r, c in lane) for lane in self.cells)
        return Fragment(self.cols, self.rows, swapped)


def fragment(wave: int, elements: int, rows: int, cols: int, cell: Callable[[int, int], Cell]) -> Fragment:
    """Tabulate a lane map; `cell(lane, element)` gives (row, column)."""
    table = tuple(tuple(cell(lane, e) for e in range(elements)) for lane in range(wave))
    return Fragment(rows, cols, table)


@dataclass(frozen=True)
class MatrixInstruction:
    """A matrix instruction of one wave: `name`, the dtype of A and B, and three fragments.

    D is f32. `builtins` are names a compiler may know it by, the preferred one first, with `tail`
    after the operands; `asm` is its mnemonic.
    """

    name: str
    dtype: str
    a: Fragment  # m x k
    b: Fragment  # k x n
    d: Fragment  # m x n
    builtins: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    asm: str = ""

    @property
    def m(self) -> int:
        return self.a.rows

    @property
    def n(self) -> int:
        return self.b.cols

    @property
    def k(self) -> int:
        return self.a.cols

    @property
    def wave(self) -> int:
        return self.d.wave


def _listed(cells: list[Cell]) -> str:
    shown = ", ".join(f"({r}, {c})" for r, c in cells[:4])
    return shown + (f" and {len(cells) - 4} more" if len(cells) > 4 else "")
