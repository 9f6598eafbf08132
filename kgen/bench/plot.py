"""The picture of a grid: GB/s of each cell against its ceilings and its peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kgen import pictures
from kgen.bench import kv
from kgen.bench.outcome import GridReport, Outcome

MARKERS = "v^<>sdphX*P"
"""Of the peers, in the order of their names."""
CELL_INCHES = 0.32
LEAST_INCHES = 5.0
PANEL_INCHES = 3.4


def plot(report: GridReport, file: Path) -> None:
    """Draw the cells that were measured, a panel for each shape of heads and dtype.

    Raises KgenError: K605 without matplotlib, K606 where nothing was measured or the file cannot be written.
    """
    panels = panels_of(report.outcomes)
    if not panels:
        raise pictures.nothing_to_draw(file)
    pyplot = pictures.pyplot()
    width = max(LEAST_INCHES, 1.5 + CELL_INCHES * max(len(cells) for cells in panels.values()))
    columns = 2 if len(panels) > 1 else 1
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(
        rows,
        columns,
        figsize=(width * columns, PANEL_INCHES * rows + 0.8),
        squeeze=False,
        layout="constrained",
    )
    marks = _marks(report.outcomes)
    for axes, (title, cells) in zip(grid.flat, panels.items(), strict=False):
        _panel(axes, title, cells, marks)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    handles, labels = _legend(grid.flat)
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 7), frameon=False)
    figure.suptitle(f"paged_attention, GB/s of keys and values: {report.machine.get('device', report.grid)}")
    pictures.save(figure, file)


def panels_of(outcomes: Sequence[Outcome]) -> Mapping[str, list[Outcome]]:
    """The cells that were measured, by heads and dtype."""
    panels: dict[str, list[Outcome]] = {}
    for one in outcomes:
        if not one.failed:
            shape = one.row["shape"]
            dtypes = kv.label(shape["dtype"], shape.get("kv_dtype", ""))
            title = f"{shape['heads']}/{shape['kv_heads']} heads of {shape['head_dim']}, {dtypes}"
            panels.setdefault(title, []).append(one)
    return panels


def _panel(axes: Any, title: str, cells: Sequence[Outcome], marks: Mapping[str, str]) -> None:
    places = range(len(cells))
    axes.step(places, [one.row["ceiling_gbps"] for one in cells], where="mid", color="0.35", label="ceiling")
    streams = [one.row["stream_gbps"] for one in cells]
    axes.step(places, streams, where="mid", color="0.6", linestyle="--", linewidth=1, label="stream")
    axes.bar(places, [one.row["gbps"] for one in cells], width=0.7, color="#b7cde3", label="kgen")
    for name, mark in marks.items():
        here = [
            (at, one.row["gbps"] / one.row["peers"][name]["ratio"])
            for at, one in enumerate(cells)
            if name in one.row["peers"]
        ]
        if here:
            axes.plot(*zip(*here, strict=True), mark, markersize=4, label=name)
    axes.set_title(title, fontsize=10)
    axes.set_xticks(places, [_label(one) for one in cells], rotation=90, fontsize=7)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GB/s")
    axes.margins(x=0.01)


def _marks(outcomes: Sequence[Outcome]) -> Mapping[str, str]:
    names = sorted({name for one in outcomes if not one.failed for name in one.row["peers"]})
    return {name: MARKERS[place % len(MARKERS)] for place, name in enumerate(names)}


def _label(one: Outcome) -> str:
    shape = one.row["shape"]
    rows = f"{shape['batch']}x{'1..' if shape['ragged'] else ''}{shape['context']}"
    return f"{rows} {shape['layout']} p{shape['block_size']}"


def _legend(panels: Any) -> tuple[list[Any], list[str]]:
    """Each label once."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
