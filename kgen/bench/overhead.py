"""`kgen bench overhead`: what a call costs before any work, on inputs of a few hundred bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kgen import ops
from kgen.bench.decode import Progress, using_threads
from kgen.bench.measure import Spread, spread

DEFAULTS: Mapping[str, Any] = {"calls": 2000, "rounds": 20, "threads": 1}


@dataclass(frozen=True)
class OverheadRow:
    """Seconds of the first call (selection, loading, binding) and of one after it."""

    op: str
    first_seconds: float
    seconds: Spread

    def json(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "seconds": self.seconds.median,
            "first_seconds": self.first_seconds,
            "spread": {"seconds": [self.seconds.low, self.seconds.high]},
        }


def run(args: Mapping[str, Any], progress: Progress = lambda line: None) -> list[OverheadRow]:
    """Time each operator: `rounds` batches of `calls` calls."""
    options = {**DEFAULTS, **{name: value for name, value in args.items() if value is not None}}
    rows = []
    with using_threads(int(options["threads"])):
        for name, call in tiny_calls().items():
            progress(name)
            rows.append(_time(name, call, int(options["calls"]), int(options["rounds"])))
    return rows


def tiny_calls() -> Mapping[str, Callable[[], object]]:
    """One call of each operator with everything given, so that nothing is allocated."""
    q, out = torch.randn(1, 1, 64), torch.empty(1, 1, 64)
    lse = torch.empty(1, 1)
    cache = torch.randn(4, 16, 1, 64)
    table, lengths = torch.zeros(1, 1, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    states, states_lse = torch.randn(1, 2, 1, 64), torch.randn(1, 2, 1)
    slot = torch.zeros(1, dtype=torch.int64)
    pair = torch.tensor([[0, 1]])
    other = torch.zeros_like(cache)

    def attend() -> object:
        return ops.paged_attention(
            q,
            cache,
            cache,
            table,
            lengths,
            softmax_scale=0.125,
            max_seq_len=1,
            layout="bshd",
            out=out,
            lse=lse,
        )

    return {
        "paged_attention": attend,
        "merge_states": lambda: ops.merge_states(states, states_lse, out=out, lse=lse),
        "reshape_and_cache": lambda: ops.reshape_and_cache(q, q, cache, cache, slot, layout="bshd"),
        "copy_blocks": lambda: ops.copy_blocks(cache, pair),
        "swap_blocks": lambda: ops.swap_blocks(cache, other, pair),
    }


def _time(name: str, call: Callable[[], object], calls: int, rounds: int) -> OverheadRow:
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    batches = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        batches.append((time.perf_counter() - start) / calls)
    return OverheadRow(name, first, spread(batches))
