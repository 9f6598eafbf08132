"""The reports of `kgen bench` as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgen.bench.decode import Row

if TYPE_CHECKING:
    from rich.table import Table


def decode_table(rows: Sequence[Row]) -> Table:
    """One line a shape; brackets hold the quartiles."""
    from rich.table import Table

    title = "paged_attention: GB/s of keys and values"
    table = Table(
        title=title, caption="median [quartiles]; ceiling: the same pages in table order, only read"
    )
    for heading in ("dtype", "layout", "page", "kernel ms", "GB/s", "ceiling", "stream", "of ceiling"):
        table.add_column(heading, justify="right")
    table.add_column("torch's best", justify="right")
    table.add_column("variant", overflow="fold")
    for row in rows:
        best = min(row.peers, key=lambda name: row.peers[name].median)
        share, ratio = row.of_ceiling, row.speedup
        table.add_row(
            row.shape.dtype,
            row.shape.layout,
            str(row.shape.block_size),
            f"{row.seconds.median * 1e3:.2f}",
            f"{row.gbps(row.seconds.median):.1f}",
            f"{row.gbps(row.ceiling_seconds):.1f}",
            f"{row.gbps(row.stream_seconds):.1f}",
            f"{share.median:.0%} [{share.low:.0%} {share.high:.0%}]",
            f"{ratio.median:.2f}x {best} [{ratio.low:.2f} {ratio.high:.2f}]",
            row.variant,
        )
    return table
