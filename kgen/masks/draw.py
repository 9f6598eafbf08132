"""The tiles of a mask for one shape, as a table and as a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgen.diagnostics import Diagnostic, KgenError
from kgen.masks.regions import regions
from kgen.masks.segments import segments
from kgen.spec.model import VariantSpec
from kgen.syntax.ast import Int

FULL, PARTIAL, EMPTY = "full", "partial", "empty"
MARKS: Mapping[str, str] = {FULL: "#", PARTIAL: "+", EMPTY: "."}
MAX_TILES = 160
"""Along each side; what is larger cannot be read."""


@dataclass(frozen=True)
class Grid:
    """A shape and the tiles it is cut into: queries by `block_m`, keys by `block_n`.

    The last query stands at the last key."""

    q_len: int
    kv_len: int
    block_m: int
    block_n: int

    @property
    def rows(self) -> int:
        return -(-self.q_len // self.block_m)

    @property
    def columns(self) -> int:
        return -(-self.kv_len // self.block_n)

    def queries(self, row: int) -> tuple[int, int]:
        """The positions of the first and last query of a row of tiles."""
        first = row * self.block_m
        last = min(first + self.block_m, self.q_len) - 1
        return first + self.kv_len - self.q_len, last + self.kv_len - self.q_len


@dataclass(frozen=True)
class TileMap:
    """What each tile is, FULL, PARTIAL or EMPTY, by row of queries."""

    grid: Grid
    rows: tuple[tuple[str, ...], ...]

    def count(self, kind: str) -> int:
        return sum(row.count(kind) for row in self.rows)


def tile_map(variant: VariantSpec, grid: Grid, args: Mapping[str, Any]) -> TileMap:
    """The tiles of a mask as kernels see them: full ones are not tested, empty ones not looked at.

    args: the variant's arguments; of one over `batch` a list. Raises KgenError (K205) for one that is
    missing, (K211) where nothing can be drawn."""
    found = segments(regions(variant), Int(0), Int(grid.block_n))
    rows = []
    for row in range(grid.rows):
        low, high = grid.queries(row)
        names = {**args, "batch": 0, "q.lo": low, "q.hi": high, "kv.end": grid.kv_len}
        kinds = [EMPTY] * grid.columns
        for begin, end, full in found.at(names):
            for tile in range(begin // grid.block_n, -(-end // grid.block_n)):
                kinds[tile] = FULL if full else PARTIAL
        rows.append(tuple(kinds))
    return TileMap(grid, tuple(rows))


def draw(tiles: TileMap) -> str:
    """One line for each row of query tiles, one mark for each tile of keys. Raises KgenError (K211)."""
    grid = tiles.grid
    check_size(grid)
    label = len(str(grid.queries(grid.rows - 1)[1])) if grid.rows else 1
    lines = []
    for row, kinds in enumerate(tiles.rows):
        low, high = grid.queries(row)
        lines.append(f"  q {low:>{label}}..{high:<{label}}  {''.join(MARKS[kind] for kind in kinds)}")
    legend = ", ".join(f"{MARKS[kind]} {kind} {tiles.count(kind)}" for kind in (FULL, PARTIAL, EMPTY))
    return "\n".join([*lines, f"  {legend} of {grid.rows * grid.columns} tiles"])


def check_size(grid: Grid) -> None:
    """Refuse what is too large to look at."""
    for name, count, block in (("block-n", grid.columns, grid.block_n), ("block-m", grid.rows, grid.block_m)):
        if count > MAX_TILES:
            enough = -(-count * block // MAX_TILES)
            message = f"{count} tiles side by side cannot be drawn; {MAX_TILES} can"
            raise KgenError(Diagnostic("K211", message, hint=f"try --{name} {enough}"))
