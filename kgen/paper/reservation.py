"""A queue of requests through memory reserved for each one in advance.

Every request holds one region from its first step to its last. A step gives each running request a token.
Means are over the steps in which requests wait, so that what is not used could have been.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kgen.paper.contiguous import ContiguousMemory
from kgen.replay.traces import TraceRequest

Reserve = Callable[[TraceRequest, int], int]
"""Slots reserved for a request, given the longest sequence there may be."""


def total_tokens(request: TraceRequest) -> int:
    """Prompt and output."""
    return request.prompt_tokens + request.output_tokens


def _power_of_two(request: TraceRequest, longest: int) -> int:
    return min(request.prompt_tokens + (1 << (request.output_tokens - 1).bit_length()), longest)


SCHEMES: Mapping[str, Reserve] = {
    "longest": lambda request, longest: longest,
    "power of two": _power_of_two,
    "oracle": lambda request, longest: total_tokens(request),
}
"""The longest sequence for everyone; the output's length rounded up to a power of two, as if it were known so
well; and the output's very length, as if it were known."""


@dataclass(frozen=True)
class Use:
    """Parts of the budget, which add up to 1, and requests at once. `useful`: slots with KV. `later`: slots
    of a request that it fills later. `never`: those it never fills. `free`: nobody's, though some wait."""

    scheme: str
    useful: float
    later: float
    never: float
    free: float
    batch: float

    @property
    def waste_of_held(self) -> float:
        """Slots that a request holds and has not filled, of all that are held."""
        return (self.later + self.never) / (1 - self.free)


def reserve(requests: Sequence[TraceRequest], scheme: str, budget: int, longest: int) -> Use | None:
    """Send requests, none of more than `longest` tokens, through `budget` slots. None when none waits."""
    memory, size_of = ContiguousMemory(budget), SCHEMES[scheme]
    waiting = deque(requests)
    running: list[tuple[int, int, int, TraceRequest]] = []  # end, start (no two alike), size, request
    step = useful = held = goal = batch = 0
    while waiting:
        while waiting:
            size = size_of(waiting[0], longest)
            start = memory.allocate(size)
            if start is None:
                break
            request = waiting.popleft()
            heapq.heappush(running, (step + request.output_tokens, start, size, request))
        if not waiting:
            break
        until = running[0][0]
        for end, _, size, request in running:
            began = end - request.output_tokens
            useful += _filled(request, until - began) - _filled(request, step - began)
            held += size * (until - step)
            goal += total_tokens(request) * (until - step)
        batch += len(running) * (until - step)
        step = until
        while running and running[0][0] == step:
            _, start, size, _ = heapq.heappop(running)
            memory.release(start, size)
    if not step:
        return None
    slots = budget * step
    return Use(
        scheme,
        useful / slots,
        (goal - useful) / slots,
        (held - goal) / slots,
        1 - held / slots,
        batch / step,
    )


def _filled(request: TraceRequest, steps: int) -> int:
    """Filled slots added up over a request's first steps: its prompt, then one more in each."""
    return steps * request.prompt_tokens + steps * (steps - 1) // 2
