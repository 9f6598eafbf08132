"""What became of the cells of a grid, and what they come to: plain data that a file can keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from kgen.bench import kv
from kgen.bench.decode import Row
from kgen.diagnostics import Diagnostic, KgenError

BEHIND = 0.97
"""A cell whose best peer takes less than this part of its time is behind."""
VERSION = 1


@dataclass(frozen=True)
class Outcome:
    """A cell: its name, the means it counts for, and its row as JSON, or why it failed."""

    cell: str
    means: tuple[str, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict)
    failed: str = ""

    @property
    def of_ceiling(self) -> float:
        """Part of the rate at which the same pages are read in table order."""
        return float(self.row["of_ceiling"])

    @property
    def of_stream(self) -> float:
        """Part of the rate of a streaming read."""
        return float(self.row["of_stream"])

    @property
    def ratio(self) -> float | None:
        """Time of the best peer as a multiple of the kernel's; None without peers."""
        spread = self.row["spread"]["best_peer_ratio"]
        return None if spread is None else float(spread[1])

    def line(self) -> str:
        """The cell in one line."""
        if self.failed:
            return f"{self.cell}: failed: {self.failed}"
        best = f", {self.ratio:.2f}x {self.row['best_peer']}" if self.ratio is not None else ""
        shares = f"{self.of_ceiling:.0%} of ceiling, {self.of_stream:.0%} of stream"
        return f"{self.cell}: {self.row['gbps']:.1f} GB/s, {shares}{best}"


@dataclass(frozen=True)
class Mean:
    """Geometric means over some cells, and the worst of them: (value, cell)."""

    name: str
    cells: int
    of_ceiling: float
    of_stream: float
    ratio: float | None
    worst_share: tuple[float, str]
    worst_ratio: tuple[float, str] | None
    behind: tuple[str, ...]


@dataclass(frozen=True)
class GridReport:
    """A run of a grid: where and how, and its cells in the order in which they ran."""

    grid: str
    command: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> int:
        return sum(bool(one.failed) for one in self.outcomes)

    def means(self) -> tuple[Mean, ...]:
        """Every mean that has a cell, in the order of their first cells."""
        done = [one for one in self.outcomes if not one.failed]
        names = dict.fromkeys(name for one in done for name in one.means)
        return tuple(_mean(name, [one for one in done if name in one.means]) for name in names)

    def json(self) -> dict[str, Any]:
        """The document that `read_grid` reads."""
        return {
            "bench": "decode",
            "version": VERSION,
            "grid": self.grid,
            "command": self.command,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "summary": [vars(mean) for mean in self.means()],
            "failed": self.failed,
            "cells": [vars(one) for one in self.outcomes],
        }


def name_of(shape: Mapping[str, Any]) -> str:
    """A shape that no grid has named, as JSON holds it."""
    rows = f"{shape['batch']} x {'1..' if shape['ragged'] else ''}{shape['context']}"
    heads = f"{shape['heads']}/{shape['kv_heads']}x{shape['head_dim']}"
    dtypes = kv.label(shape["dtype"], shape.get("kv_dtype", ""))
    return f"{rows} {heads} {dtypes} {shape['layout']} p{shape['block_size']}"


def outcomes_of(rows: Sequence[Row]) -> tuple[Outcome, ...]:
    """Rows that were measured without a grid."""
    return tuple(Outcome(name_of(row.shape.json()), ("all",), row.json()) for row in rows)


def read_grid(file: Path) -> GridReport:
    """A run that was kept in a file. Raises KgenError (K584) where it is none."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        cells = [Outcome(**{**one, "means": tuple(one["means"])}) for one in data["cells"]]
        report = GridReport(data["grid"], data["command"], data["machine"], data["versions"], tuple(cells))
        report.means()
    except OSError as error:
        raise KgenError(Diagnostic("K584", f"cannot read {file}: {error.strerror}")) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{file} is no result of a grid: {type(error).__name__}: {error}"
        hint = "write one with `kgen bench decode --grid NAME --out FILE`"
        raise KgenError(Diagnostic("K584", message, hint=hint)) from None
    return report


def joined(reports: Sequence[GridReport]) -> GridReport:
    """Runs of parts of a grid as one; of a cell that several measured the last counts. Raises KgenError
    (K584) where they are of different machines."""
    first = reports[0]
    for other in reports[1:]:
        if other.machine.get("device") != first.machine.get("device"):
            devices = f"{first.machine.get('device')} and {other.machine.get('device')}"
            raise KgenError(Diagnostic("K584", f"results of {devices} do not make one picture"))
    cells = {one.cell: one for report in reports for one in report.outcomes}
    commands = "\n".join(dict.fromkeys(report.command for report in reports))
    return replace(first, command=commands, outcomes=tuple(cells.values()))


def _mean(name: str, cells: Sequence[Outcome]) -> Mean:
    ratios = [(one.ratio, one.cell) for one in cells if one.ratio is not None]
    return Mean(
        name=name,
        cells=len(cells),
        of_ceiling=_over(cells, lambda one: one.of_ceiling),
        of_stream=_over(cells, lambda one: one.of_stream),
        ratio=geometric_mean(ratio for ratio, _ in ratios) if ratios else None,
        worst_share=min((one.of_ceiling, one.cell) for one in cells),
        worst_ratio=min(ratios, default=None),
        behind=tuple(cell for ratio, cell in ratios if ratio < BEHIND),
    )


def _over(cells: Sequence[Outcome], value: Callable[[Outcome], float]) -> float:
    return geometric_mean(value(one) for one in cells)
