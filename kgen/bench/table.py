"""The reports of `kgen bench` as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgen.bench.decode import Row
from kgen.bench.extend import ExtendRow
from kgen.bench.outcome import GridReport, Mean
from kgen.bench.overhead import OverheadRow
from kgen.bench.params import Params

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


def decode_table(rows: Sequence[Row]) -> Table:
    """One line a shape; parentheses hold the quartiles."""
    headings = (
        "dtype",
        "layout",
        "page",
        "kernel ms",
        "tokens/s",
        "GB/s",
        "ceiling",
        "stream",
        "of ceiling",
        "to best peer",
    )
    table = _table("paged_attention: GB/s of keys and values", (*headings, "variant"))
    table.caption = (
        "median (quartiles); ceiling: the same pages in table order, only read; "
        "to best peer: its time as a multiple of the kernel's"
    )
    for row in rows:
        share, ratio = row.of_ceiling, row.speedup
        table.add_row(
            row.shape.dtypes,
            row.shape.layout,
            str(row.shape.block_size),
            f"{row.seconds.median * 1e3:.3f}",
            f"{row.tokens_per_second:.0f}",
            f"{row.gbps(row.seconds.median):.1f}",
            f"{row.gbps(row.ceiling_seconds):.1f}",
            f"{row.gbps(row.stream_seconds):.1f}",
            f"{share.median:.0%} ({share.low:.0%} {share.high:.0%})",
            f"{ratio.median:.2f}x {row.best_peer} ({ratio.low:.2f} {ratio.high:.2f})" if ratio else "",
            row.variant,
        )
    return table


def grid_table(report: GridReport) -> Group:
    """One line a cell, then what they come to."""
    from rich.console import Group

    columns = ("cell", "ms", "GB/s", "of ceiling", "of stream", "to best peer", "variant")
    cells = _table(f"paged_attention over the grid {report.grid}", columns)
    for one in report.outcomes:
        if one.failed:
            cells.add_row(one.cell, "failed", "", "", "", "", one.failed)
            continue
        ratio = f"{one.ratio:.2f}x {one.row['best_peer']}" if one.ratio is not None else ""
        milliseconds, rate = f"{one.row['seconds'] * 1e3:.3f}", f"{one.row['gbps']:.1f}"
        shares = f"{one.of_ceiling:.0%}", f"{one.of_stream:.0%}"
        cells.add_row(one.cell, milliseconds, rate, *shares, ratio, one.row["variant"])
    means = _table("geometric means", ("cells", "of ceiling", "of stream", "to best peer", "worst"))
    for mean in report.means():
        means.add_row(f"{mean.name} ({mean.cells})", *_mean_cells(mean))
    return Group(cells, means)


def _mean_cells(mean: Mean) -> tuple[str, str, str, str]:
    share, cell = mean.worst_share
    worst = [f"{share:.0%} of ceiling at {cell}"]
    if mean.worst_ratio is not None:
        ratio, cell = mean.worst_ratio
        worst.append(f"{ratio:.2f}x at {cell}")
        worst.append(f"behind by more than 3% in {len(mean.behind)}")
    ratio_text = f"{mean.ratio:.3f}x" if mean.ratio is not None else ""
    return f"{mean.of_ceiling:.1%}", f"{mean.of_stream:.1%}", ratio_text, "\n".join(worst)


def extend_table(rows: Sequence[ExtendRow]) -> Table:
    """One line a shape; parentheses hold the quartiles."""
    headings = ("dtype", "layout", "page", "kernel ms", "GFLOP/s", "matmul", "of matmul", "to best peer")
    table = _table("extend_attention: GFLOP/s over visible pairs", (*headings, "variant"))
    table.caption = "median (quartiles); matmul: torch's product of square matrices of the same dtype"
    for row in rows:
        best = min(row.peers, key=lambda name: row.peers[name].median, default="")
        share, ratio = row.of_matmul, row.speedup
        table.add_row(
            row.shape.dtypes,
            row.shape.layout,
            str(row.shape.block_size),
            f"{row.seconds.median * 1e3:.3f}",
            f"{row.shape.operations / row.seconds.median / 1e9:.1f}",
            f"{row.matmul_rate / 1e9:.1f}",
            f"{share.median:.0%} ({share.low:.0%} {share.high:.0%})",
            f"{ratio.median:.2f}x {best} ({ratio.low:.2f} {ratio.high:.2f})" if best else "",
            row.variant,
        )
    return table


def overhead_table(rows: Sequence[OverheadRow]) -> Table:
    """One line an operator."""
    columns = ("operator", "us a call", "quartiles", "plans made", "first call ms")
    table = _table("cost of one small call", columns)
    for row in rows:
        table.add_row(
            row.op,
            f"{row.seconds.median * 1e6:.2f}",
            f"{row.seconds.low * 1e6:.2f} {row.seconds.high * 1e6:.2f}",
            str(row.plans),
            f"{row.first_seconds * 1e3:.2f}",
        )
    return table


def params_tables(found: Params) -> Group:
    """What pages cost, then what partitions cost."""
    from rich.console import Group

    columns = ("block_size", "waste tokens", "waste KiB a layer", "waste %", "entries", "ms", "GB/s")
    pages = _table("pages", columns)
    for block in found.blocks:
        pages.add_row(
            str(block.block_size),
            f"{block.waste_tokens:.1f}",
            f"{block.waste_bytes / 1024:.1f}",
            f"{block.waste_part:.2%}",
            str(block.entries),
            f"{block.seconds * 1e3:.2f}",
            f"{block.gbps:.1f}",
        )
    parts = _table("partitions", ("partition_size", "partitions", "workspace KiB", "call ms", "merge us"))
    for part in found.partitions:
        parts.add_row(
            str(part.partition_size),
            str(part.partitions),
            f"{part.workspace_bytes / 1024:.1f}",
            f"{part.seconds * 1e3:.2f}",
            f"{part.combine_seconds * 1e6:.1f}",
        )
    return Group(pages, parts)


def _table(title: str, headings: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(title=title)
    for heading in headings:
        words = heading in ("operator", "variant", "cell", "cells", "worst")
        table.add_column(heading, justify="left" if words else "right", overflow="fold")
    return table
