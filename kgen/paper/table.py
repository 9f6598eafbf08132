"""All figures, for a reader."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table

from kgen.paper.claims import Claim
from kgen.paper.figures import BOUND_BLOCK_SIZE, PAGING_BOUND, Figures, TraceFigures

PUBLISHED_USEFUL = "20.4% to 38.2%"
"""Useful part of KV memory in systems that reserve it, as published (on other requests than these)."""


def tables(found: Figures) -> Group:
    """Single figures, then two tables a trace."""
    per_trace = [
        table for trace in found.traces for table in (_uses(trace, found.budget_tokens), _tails(trace))
    ]
    return Group(_claims(found.claims), *per_trace)


def _claims(claims: Sequence[Claim]) -> Table:
    table = _table("single figures", ("figure", "published", "here", ""), words=1)
    for claim in claims:
        unit = f" {claim.unit}" if claim.unit else ""
        verdict = "" if claim.holds else "differs"
        table.add_row(claim.what, f"{claim.published:,}{unit}", f"{claim.found:,}{unit}", verdict)
    return table


def _uses(trace: TraceFigures, budget: int) -> Table:
    headings = ("memory", "useful", "filled later", "never filled", "free", "waste of held", "at once")
    title = f"{trace.name}: {trace.requests} requests through {budget:,} token slots"
    table = _table(title, headings, words=1)
    table.caption = (
        f"while requests wait; {trace.left_out} longer ones are left out; "
        f"useful with reservation, as published: {PUBLISHED_USEFUL}"
    )
    if trace.never_full:
        table.caption += f"; never full: {', '.join(trace.never_full)}"
    for use in trace.uses:
        parts = (use.useful, use.later, use.never, use.free, use.waste_of_held)
        table.add_row(use.scheme, *(f"{part:.1%}" for part in parts), f"{use.batch:.1f}")
    return table


def _tails(trace: TraceFigures) -> Table:
    headings = ("block_size", "unused tokens", "MiB", "of its pages")
    table = _table(f"{trace.name}: unused slots of a request, mean over all its steps", headings)
    verdict = "" if trace.holds else ": differs"
    table.caption = (
        f"all requests; bytes of LLaMA-13B in f16; as published, pages of {BOUND_BLOCK_SIZE} waste "
        f"less than {PAGING_BOUND:.0%}{verdict}"
    )
    for row in trace.tails:
        table.add_row(str(row.block_size), f"{row.tokens:.2f}", f"{row.bytes / 2**20:.2f}", f"{row.part:.2%}")
    return table


def _table(title: str, headings: Sequence[str], words: int = 0) -> Table:
    table = Table(title=title)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < words else "right")
    return table
