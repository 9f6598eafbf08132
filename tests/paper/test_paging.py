"""The same queue in pages, and the unused slots of last pages."""

import random

import pytest

from kgen.paper import paging
from kgen.paper.paging import page, tail_waste
from kgen.paper.reservation import reserve
from kgen.replay.traces import TraceRequest


def queue(*sizes) -> list[TraceRequest]:
    return [TraceRequest(0.0, prompt, output) for prompt, output in sizes]


def drawn(count: int, seed: int = 0) -> list[TraceRequest]:
    draw = random.Random(seed)
    return queue(*((draw.randrange(1, 60), draw.randrange(1, 30)) for _ in range(count)))


def test_a_request_that_fills_memory_alone():
    """Pages of 4 in 12 slots: 6, 7 and 8 tokens in 2 pages; the second needs 3 and waits for 3 steps."""
    use = page(queue((6, 3), (9, 1)), 4, 12)
    assert (use.useful, use.never, use.free) == pytest.approx((21 / 36, 3 / 36, 12 / 36))
    assert (use.batch, use.later) == (1, 0) and use.waste_of_held == pytest.approx(3 / 24)


@pytest.mark.parametrize("block_size", [1, 8, 16])
def test_parts_add_up_and_pages_hold_more_than_regions(block_size):
    requests = drawn(60)
    use = page(requests, block_size, 320)
    assert use.useful + use.later + use.never + use.free == pytest.approx(1)
    assert (use.never == 0) == (block_size == 1)
    for scheme in ("longest", "power of two", "oracle"):
        reserved = reserve(requests, scheme, 320, 90)
        assert use.useful > reserved.useful and use.batch > reserved.batch


def test_memory_that_never_fills_has_no_use():
    assert page(queue((1, 5), (2, 3)), 4, 100) is None


@pytest.mark.parametrize("block_size", [1, 8, 16])
@pytest.mark.parametrize("at_once", [1, 50, 10_000])
def test_unused_slots_are_counted_in_every_step(block_size, at_once, monkeypatch):
    monkeypatch.setattr(paging, "LENGTHS_AT_ONCE", at_once)
    requests = drawn(40)
    lengths = [each.prompt_tokens + step for each in requests for step in range(each.output_tokens)]
    unused = [-length % block_size for length in lengths]
    mean, part = tail_waste(requests, block_size)
    assert mean == pytest.approx(sum(unused) / len(lengths))
    assert part == pytest.approx(sum(unused) / (sum(unused) + sum(lengths)))
