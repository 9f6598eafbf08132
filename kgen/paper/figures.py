"""All figures, for a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgen.diagnostics import Diagnostic, KgenError
from kgen.paper.claims import LLAMA_13B, Claim, claims
from kgen.paper.paging import page, tail_waste
from kgen.paper.reservation import SCHEMES, Use, reserve, total_tokens
from kgen.replay.traces import Trace, TraceRequest, read_trace
from kgen.runtime import pages_for

Progress = Callable[[str], None]

BLOCK_SIZES = (8, 16, 32, 64, 128, 256)
BOUND_BLOCK_SIZE, PAGING_BOUND = 16, 0.04
"""What paging wastes of its memory, as published: less than this, in pages of this size."""


@dataclass(frozen=True)
class Settings:
    """`max_seq_len`: longest sequence, which static memory reserves; longer requests are left out.
    `budget_gib`: KV memory, at LLaMA-13B's bytes a token. `requests`: so many of the trace go through it;
    the waste by block size is of the whole trace."""

    max_seq_len: int = 2048
    budget_gib: float = 12.0
    requests: int = 500

    @property
    def budget_tokens(self) -> int:
        return int(self.budget_gib * 2**30) // LLAMA_13B.token_bytes


@dataclass(frozen=True)
class TailRow:
    """A block size: unused slots of a request's last page, in tokens, in bytes of LLaMA-13B, and as part of
    its pages."""

    block_size: int
    tokens: float
    bytes: float
    part: float


@dataclass(frozen=True)
class TraceFigures:
    """One trace: what each scheme makes of the same memory, and the waste of paging by block size.
    `left_out`: requests that are too long. `never_full`: schemes under which no request had to wait."""

    name: str
    requests: int
    left_out: int
    never_full: tuple[str, ...]
    uses: tuple[Use, ...]
    tails: tuple[TailRow, ...]

    @property
    def paging_waste(self) -> float:
        """Part of its pages that a request leaves unused at the block size the published bound is of."""
        return next(row.part for row in self.tails if row.block_size == BOUND_BLOCK_SIZE)

    @property
    def holds(self) -> bool:
        """Whether that is within the bound."""
        return self.paging_waste < PAGING_BOUND

    def json(self) -> dict[str, Any]:
        uses = [{**asdict(use), "waste_of_held": use.waste_of_held} for use in self.uses]
        return {**asdict(self), "uses": uses, "paging_waste": self.paging_waste, "holds": self.holds}


@dataclass(frozen=True)
class Figures:
    """Single figures, then traces."""

    claims: tuple[Claim, ...]
    traces: tuple[TraceFigures, ...]
    budget_tokens: int

    @property
    def hold(self) -> bool:
        """Whether every figure came out as published."""
        return all(claim.holds for claim in self.claims) and all(trace.holds for trace in self.traces)

    def json(self) -> dict[str, Any]:
        return {
            "claims": [{**asdict(claim), "holds": claim.holds} for claim in self.claims],
            "traces": [trace.json() for trace in self.traces],
            "budget_tokens": self.budget_tokens,
        }


def figures(paths: Sequence[Path], settings: Settings, progress: Progress = lambda line: None) -> Figures:
    """Everything. Raises KgenError: K709 for a trace that cannot be read or of which nothing is short enough,
    K701 for a budget below one sequence."""
    largest = max(BLOCK_SIZES)
    if settings.budget_tokens < pages_for(settings.max_seq_len, largest) * largest:
        held = f"{settings.budget_gib:g} GiB hold {settings.budget_tokens} tokens"
        message = f"{held}, too few for a sequence of {settings.max_seq_len}"
        raise KgenError(Diagnostic("K701", message, hint="raise --budget-gib or lower --max-seq-len"))
    traces = [read_trace(path) for path in paths]
    progress("single figures")
    single = claims()
    found = [trace_figures(trace, settings, progress) for trace in traces]
    return Figures(single, tuple(found), settings.budget_tokens)


def trace_figures(trace: Trace, settings: Settings, progress: Progress = lambda line: None) -> TraceFigures:
    """One trace's figures."""
    short = [request for request in trace.requests if total_tokens(request) <= settings.max_seq_len]
    if not short:
        message = f"no request of {trace.name} has at most {settings.max_seq_len} tokens"
        raise KgenError(Diagnostic("K709", message, hint="raise --max-seq-len"))
    queue, budget = short[: settings.requests], settings.budget_tokens
    found: dict[str, Use | None] = {}
    for scheme in SCHEMES:
        progress(f"{trace.name}: {scheme}")
        found[scheme] = reserve(queue, scheme, budget, settings.max_seq_len)
    for block_size in BLOCK_SIZES:
        progress(f"{trace.name}: pages of {block_size}")
        found[f"pages of {block_size}"] = page(queue, block_size, budget)
    uses = tuple(use for use in found.values() if use is not None)
    never_full = tuple(scheme for scheme, use in found.items() if use is None)
    tails = tuple(_tail_row(trace.requests, block_size) for block_size in BLOCK_SIZES)
    left_out = len(trace.requests) - len(short)
    return TraceFigures(trace.name, len(queue), left_out, never_full, uses, tails)


def _tail_row(requests: Sequence[TraceRequest], block_size: int) -> TailRow:
    tokens, part = tail_waste(requests, block_size)
    return TailRow(block_size, tokens, tokens * LLAMA_13B.token_bytes, part)
