"""Measuring on a GPU: many calls in one graph, timed by the device itself.

A replay costs the host one launch however many calls it holds, so that what is timed is the device's
work. Before the timed replay another one runs, so that the device is busy while it is queued.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from kgen.bench.measure import Clock, Contender
from kgen.diagnostics import Diagnostic, KgenError
from kgen.dispatch.gpu import is_gpu
from kgen.spec.build import NATIVE
from kgen.spec.catalog import Catalog

Numbered = Callable[[int], object]
"""Does the work once, on the input of that number."""

REPLAY_SECONDS = 2e-3
"""What a replay should take at least, at a rough guess."""
GUESSED_BYTES_A_SECOND = 4e12
LEAST_CALL_SECONDS = 3e-6


def find_device(device: str | None, arch: str | None, catalog: Catalog) -> str:
    """Where a benchmark's tensors lie, as torch names it: `device`, or where that is None the GPU for an
    `arch` of a GPU and the CPU for every other.

    Raises KgenError (K582) for a device that is not there.
    """
    target = catalog.targets.get(arch or "")
    wanted = device or ("cuda" if target is not None and target.family != "cpu" else "cpu")
    if wanted == "cpu":
        return wanted
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    try:
        found = torch.device(wanted)
    except RuntimeError:
        raise _no_device(f"'{wanted}' is no device") from None
    if not is_gpu(wanted):
        raise _no_device(f"benchmarks do not run on '{wanted}'")
    if count == 0:
        raise _no_device("torch sees no GPU here")
    index = torch.cuda.current_device() if found.index is None else found.index
    if index >= count:
        raise _no_device(f"there is no {wanted}: torch sees {count} GPUs")
    return f"cuda:{index}"


def insisted(arch: str | None) -> str | None:
    """The arch a call insists on; None for `native`, which is what a call takes by itself."""
    return None if arch == NATIVE else arch


def _no_device(message: str) -> KgenError:
    return KgenError(Diagnostic("K582", message, hint="use cpu, or cuda where torch sees a GPU"))


def turns(tables: int, nbytes: int) -> Sequence[int]:
    """The numbers of a graph's calls: whole rounds over the tables."""
    guess = max(nbytes / GUESSED_BYTES_A_SECOND, LEAST_CALL_SECONDS)
    rounds = max(1, int(-(-REPLAY_SECONDS // (tables * guess))))
    return [*range(tables)] * rounds


def recorded(call: Numbered, numbers: Sequence[int]) -> Contender:
    """A contender that replays a graph of one call for each number."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for number in dict.fromkeys(numbers):  # whatever a first call sets up
            call(number)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for number in numbers:
            call(number)
    return graph.replay


def event_clock(calls: int) -> Clock:
    """The seconds of one of the `calls` of a replay."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]

    def clock(replay: Contender) -> float:
        replay()
        start.record()
        replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / calls

    return clock
