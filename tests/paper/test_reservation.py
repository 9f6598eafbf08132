"""Reserved memory, compared with a simulation that looks at every slot in every step."""

import random
from dataclasses import astuple

import pytest

from kgen.paper.contiguous import ContiguousMemory
from kgen.paper.reservation import SCHEMES, reserve, total_tokens
from kgen.replay.traces import TraceRequest


def queue(*sizes) -> list[TraceRequest]:
    return [TraceRequest(0.0, prompt, output) for prompt, output in sizes]


def step_by_step(requests, scheme, budget, longest):
    memory, waiting, running = ContiguousMemory(budget), list(requests), []
    useful = later = never = free = batch = steps = 0
    while True:
        while waiting:
            size = SCHEMES[scheme](waiting[0], longest)
            start = memory.allocate(size)
            if start is None:
                break
            running.append([waiting.pop(0), start, size, 0])
        if not waiting:
            slots = budget * steps
            return [useful / slots, later / slots, never / slots, free / slots, batch / steps]
        for request, _, size, done in running:
            filled = request.prompt_tokens + done
            useful += filled
            later += total_tokens(request) - filled
            never += size - total_tokens(request)
        free += memory.num_free
        batch += len(running)
        steps += 1
        for entry in list(running):
            entry[3] += 1
            if entry[3] == entry[0].output_tokens:
                memory.release(entry[1], entry[2])
                running.remove(entry)


def test_two_requests_one_after_the_other():
    """10 slots each of 12; the first fills 2, 3 and 4 of the 5 it needs while the second waits."""
    use = reserve(queue((2, 3), (1, 1)), "longest", 12, 10)
    assert (use.useful, use.later, use.never, use.free) == pytest.approx((9 / 36, 6 / 36, 15 / 36, 6 / 36))
    assert use.batch == 1 and use.waste_of_held == pytest.approx(21 / 30)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(5))
def test_every_part_is_what_looking_at_each_step_gives(scheme, seed):
    draw = random.Random(seed)
    requests = queue(*((draw.randrange(1, 20), draw.randrange(1, 12)) for _ in range(40)))
    use = reserve(requests, scheme, 90, 31)
    assert list(astuple(use))[1:] == pytest.approx(step_by_step(requests, scheme, 90, 31))
    assert use.useful + use.later + use.never + use.free == pytest.approx(1)


def test_what_each_scheme_reserves():
    (request,) = queue((100, 33))
    assert {name: size(request, 2048) for name, size in SCHEMES.items()} == {
        "longest": 2048,
        "power of two": 164,
        "oracle": 133,
    }
    assert SCHEMES["power of two"](request, 150) == 150
    (exact,) = queue((100, 32))
    assert SCHEMES["power of two"](exact, 2048) == 132


def test_memory_that_never_fills_has_no_use():
    assert reserve(queue((1, 5), (2, 3)), "oracle", 100, 50) is None
