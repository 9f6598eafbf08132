"""`kgen bench overhead`: what a call costs before any work, on inputs of a few hundred bytes.

On a GPU it is the host's time: calls are made in batches that its queue of launches holds, and the
device is waited for between them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kgen import ops
from kgen.bench.decode import Progress, using_threads
from kgen.bench.device import find_device
from kgen.bench.measure import Spread, spread
from kgen.spec.load import load_catalog

DEFAULTS: Mapping[str, Any] = {"calls": 2000, "rounds": 20, "threads": 1, "device": None}
QUEUED = 256
"""Calls on a GPU between two waits: of two kernels each they fill half its queue."""
FIRST_LENGTH = 1000
"""Where max_seq_len starts to grow from, past the lengths that short rows are decided at."""


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
    """Time each operator: `rounds` batches of `calls` calls. Raises KgenError (K582) where the device is
    not there."""
    options = {**DEFAULTS, **{name: value for name, value in args.items() if value is not None}}
    device = find_device(options["device"], None, load_catalog())
    calls = int(options["calls"]) if device == "cpu" else min(int(options["calls"]), QUEUED)
    rows = []
    with using_threads(int(options["threads"])):
        for name, call in tiny_calls(device).items():
            progress(name)
            rows.append(_time(name, call, calls, int(options["rounds"]), device))
    return rows


def tiny_calls(device: str = "cpu") -> Mapping[str, Callable[[], object]]:
    """One call of each operator with everything given, so that nothing is allocated; and decode with a
    `max_seq_len` that is new in each call, as the steps of a decode loop have it."""
    with torch.device(device):
        q = torch.randn(1, 1, 64).to(torch.float32 if device == "cpu" else torch.bfloat16)
        cache = torch.randn(4, 16, 1, 64).to(q.dtype)
        table, lengths = torch.zeros(1, 1, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
        states, states_lse = torch.randn(1, 2, 1, 64).to(q.dtype), torch.randn(1, 2, 1)
        lse, slot, pair = torch.empty(1, 1), torch.zeros(1, dtype=torch.int64), torch.tensor([[0, 1]])
    out, other = torch.empty_like(q), torch.zeros_like(cache)
    growing = itertools.count(FIRST_LENGTH)

    def attend(max_seq_len: int) -> object:
        return ops.paged_attention(
            q,
            cache,
            cache,
            table,
            lengths,
            softmax_scale=0.125,
            max_seq_len=max_seq_len,
            layout="bshd",
            out=out,
            lse=lse,
        )

    return {
        "paged_attention": lambda: attend(1),
        "paged_attention, max_seq_len growing": lambda: attend(next(growing)),
        "merge_states": lambda: ops.merge_states(states, states_lse, out=out, lse=lse),
        "reshape_and_cache": lambda: ops.reshape_and_cache(q, q, cache, other, slot, layout="bshd"),
        "copy_blocks": lambda: ops.copy_blocks(cache, pair),
        "swap_blocks": lambda: ops.swap_blocks(cache, other, pair),
    }


def _time(name: str, call: Callable[[], object], calls: int, rounds: int, device: str) -> OverheadRow:
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    batches = []
    for _ in range(rounds):
        if device != "cpu":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        for _ in range(calls):
            call()
        batches.append((time.perf_counter() - start) / calls)
    return OverheadRow(name, first, spread(batches))
