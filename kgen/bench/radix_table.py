"""The report of `kgen bench radix` as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgen.bench.radix import STEPS, RadixReport

if TYPE_CHECKING:
    from rich.console import Group


def radix_tables(found: RadixReport) -> Group:
    """The trace, then single operations."""
    from rich.console import Group
    from rich.table import Table

    trace = Table(title="a request's way through the radix cache, us of CPU")
    for heading in ("page", "p50", "p99", "req/s", *STEPS, "key", "hit rate", "evicted"):
        trace.add_column(heading, justify="right")
    trace.caption = "medians; key: a list of tokens to a key, once when a request arrives, not in p50"
    for row in found.trace:
        steps = [f"{row.steps[step]:.1f}" for step in STEPS]
        ends = [f"{row.key_us:.0f}", f"{row.hit_rate:.1%}", str(row.evicted_leaves)]
        whole = [f"{row.median_us:.1f}", f"{row.p99_us:.0f}", f"{row.requests_per_second:,.0f}"]
        trace.add_row(str(row.page_size), *whole, *steps, *ends)
    cases = Table(title="one operation, us of CPU")
    cases.add_column("operation")
    for heading in ("page", "median", "quartiles", "worst"):
        cases.add_column(heading, justify="right")
    for case in found.cases:
        quartiles = f"{case.us.low:.1f} {case.us.high:.1f}"
        figures = (f"{case.us.median:.1f}", quartiles, f"{case.worst_us:.0f}")
        cases.add_row(case.case, str(case.page_size), *figures)
    return Group(trace, cases)
