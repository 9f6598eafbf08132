"""Timing things against each other on a machine that others use too.

What is compared is measured in turn, round after round, so that a slow moment hits all alike; ratios
are taken round by round and the median of them is what counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Contender = Callable[[], object]
"""Does the work once, on the next of its inputs."""
Clock = Callable[[Contender], float]
"""Lets a contender work; answers how many seconds a call took."""


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles of at least one value."""
    if len(values) < 2:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def wall_clock(work: Contender) -> float:
    """The time of one call that is done when it returns."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alternate(
    contenders: Mapping[str, Contender], rounds: int, warmup: int = 2, clock: Clock = wall_clock
) -> dict[str, list[float]]:
    """Seconds of each contender in each of `rounds` rounds, after `warmup` rounds that do not count.
    Every second round goes through them backwards."""
    order = list(contenders.items())
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(-warmup, rounds):
        for name, work in order if number % 2 == 0 else reversed(order):
            seconds = clock(work)
            if number >= 0:
                times[name].append(seconds)
    return times


def ratios(times: Sequence[float], others: Sequence[float]) -> list[float]:
    """How many times as long the others took, round by round."""
    return [other / own for own, other in zip(times, others, strict=True)]
