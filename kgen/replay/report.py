"""What came of a replay, for a program and for a reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgen.replay.simulate import Replayed
from kgen.replay.traces import Trace

if TYPE_CHECKING:
    from rich.console import Group

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Latency:
    """Seconds over all requests."""

    mean: float
    p50: float
    p90: float
    p99: float
    worst: float


@dataclass(frozen=True)
class Report:
    """`hit_tokens` of `prompt_tokens` were in the cache when a request was first admitted. `latencies`:
    from arrival to admission (queue), to the first token and to the end, and from token to token."""

    trace: Trace
    run: Replayed
    prompt_tokens: int
    hit_tokens: int
    output_tokens: int
    latencies: Mapping[str, Latency]

    @property
    def hit_rate(self) -> float:
        """Part of all prompt tokens that was not computed."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def json(self) -> dict[str, Any]:
        """All figures as plain values; seconds are the simulation's."""
        run = self.run
        return {
            "trace": self.trace.name,
            "kind": self.trace.kind,
            "names_content": self.trace.names_content,
            "requests": len(run.records),
            "refused": run.refused,
            "seconds": run.seconds,
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "hit_tokens": self.hit_tokens,
            "hit_rate": self.hit_rate,
            "totals": asdict(run.totals),
            "cache": asdict(run.stats) if run.stats is not None else None,
            "usage": asdict(run.usage),
            "latencies": {name: asdict(latency) for name, latency in self.latencies.items()},
        }

    def tables(self) -> Group:
        """The same for a reader."""
        from rich.console import Group
        from rich.table import Table

        counts = Table(title=f"{self.trace.name}: {len(self.run.records):,} requests", show_header=False)
        counts.add_column("what")
        counts.add_column("figure", justify="right")
        for what, figure in self._counts():
            counts.add_row(what, figure)
        times = Table(title="seconds in scheduler time")
        times.add_column("")
        for heading in ("mean", *(f"p{each}" for each in PERCENTILES), "worst"):
            times.add_column(heading, justify="right")
        for name, latency in self.latencies.items():
            times.add_row(name, *(f"{value:.3f}" for value in asdict(latency).values()))
        return Group(counts, times)

    def _counts(self) -> Iterable[tuple[str, str]]:
        run, usage = self.run, self.run.usage
        yield "prompt tokens", f"{self.prompt_tokens:,}"
        yield "found in the cache", f"{self.hit_tokens:,} ({self.hit_rate:.1%})"
        if not self.trace.names_content:
            yield "", "the trace says nothing of content: no prefix can be known to be shared"
        yield "generated tokens", f"{self.output_tokens:,}"
        if run.stats is not None:
            yield "evicted tokens", f"{run.stats.evicted_tokens:,} in {run.stats.evicted_leaves:,} leaves"
        yield "preemptions", f"{run.totals.preemptions:,}"
        yield "refused as larger than the pool", f"{run.refused:,}"
        yield "steps, seconds", f"{run.totals.steps:,}, {run.seconds:,.1f}"
        yield "running sequences, mean and most", f"{usage.sequences:.1f}, {usage.most}"
        yield "pages in use, of all", f"{usage.pages:.1%}"
        yield "pages only the cache holds, of all", f"{usage.cached:.1%}"
        yield "wasted behind last tokens, of slots in use", f"{usage.tail:.2%}"
        yield "reserved for prompts under way, of slots in use", f"{usage.unwritten:.2%}"


def report(trace: Trace, run: Replayed) -> Report:
    """Sum up a run."""
    records = run.records
    queue = [each.end.admitted - each.arrived for each in records]
    first = [each.end.first_token - each.arrived for each in records]
    between = [
        (each.end.finished - each.end.first_token) / (each.request.output_tokens - 1)
        for each in records
        if each.request.output_tokens > 1
    ]
    whole = [each.end.finished - each.arrived for each in records]
    named = {"queue": queue, "first token": first, "token to token": between, "whole request": whole}
    return Report(
        trace,
        run,
        sum(each.end.prompt_tokens for each in records),
        sum(each.end.cached_tokens for each in records),
        sum(len(output.tokens) for each in records for output in each.end.outputs),
        {name: _latency(values) for name, values in named.items() if values},
    )


def _latency(values: list[float]) -> Latency:
    p50, p90, p99 = (float(np.percentile(values, each)) for each in PERCENTILES)
    return Latency(float(np.mean(values)), p50, p90, p99, max(values))
