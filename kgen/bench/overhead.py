"""`kgen bench overhead`: what a call costs before any work, on inputs of a few hundred bytes.

On a GPU it is the host's time: calls are made in batches that its queue of launches holds, and the
device is waited for between them. A call of no rows is looked up and launches nothing; an operator of
torch is what a call costs elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kgen import ops
from kgen.bench.decode import Progress, using_threads
from kgen.bench.device import find_device
from kgen.bench.measure import Spread, spread
from kgen.bench.tiny import tiny_calls
from kgen.spec.load import load_catalog

DEFAULTS: Mapping[str, Any] = {"calls": 2000, "rounds": 20, "threads": 1, "device": None}
QUEUED = 256
"""Calls on a GPU between two waits: of two kernels each they fill half its queue."""


@dataclass(frozen=True)
class OverheadRow:
    """Seconds of the first call (selection, loading, binding) and of one after it, and how many plans
    those after it made."""

    op: str
    first_seconds: float
    seconds: Spread
    plans: int

    def json(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "seconds": self.seconds.median,
            "first_seconds": self.first_seconds,
            "spread": {"seconds": [self.seconds.low, self.seconds.high]},
            "plans": self.plans,
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


def _time(name: str, call: Callable[[], object], calls: int, rounds: int, device: str) -> OverheadRow:
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    made = ops.dispatcher().planner.made
    batches = []
    for _ in range(rounds):
        if device != "cpu":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        for _ in range(calls):
            call()
        batches.append((time.perf_counter() - start) / calls)
    return OverheadRow(name, first, spread(batches), ops.dispatcher().planner.made - made)
