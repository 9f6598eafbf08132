"""Traces through the runtime: what is shared, what it costs in scheduler time, and what is wasted."""

import dataclasses
import random

import pytest

from kgen.diagnostics import KgenError
from kgen.replay.simulate import Settings, Simulation
from kgen.runtime import SchedulerConfig
from tests.replay.samples import ids_for, trace_of

PLAIN = Settings(pool_tokens=8192, watermark=0.0, step_ms=10, row_us=100)


def settings(**more) -> Settings:
    scheduler = {name: more.pop(name) for name in list(more) if hasattr(SchedulerConfig, name)}
    config = SchedulerConfig(**{"max_batch_tokens": 2048, **scheduler})
    return dataclasses.replace(PLAIN, scheduler=config, **more)


def replay(*requests, **more):
    """A run, with everything verified on the way."""
    simulation = Simulation(trace_of(*requests), settings(**more), check=True)
    found = simulation.run()
    pool = simulation.scheduler.manager.pool
    assert pool.num_held == 0 and pool.num_available == pool.num_pages
    return found


def test_times_follow_from_the_formula():
    found = replay((0, 100, 3, (0,)), (50, 20, 1, (1,)))
    first, second = (record.end for record in found.records)
    assert first.first_token == pytest.approx(0.01 + 100 * 1e-4)
    assert first.finished == pytest.approx(first.first_token + 2 * (0.01 + 1e-4))
    assert second.admitted == 50 and second.finished == pytest.approx(50 + 0.012) == found.seconds
    assert found.totals.steps == 4


def test_arrivals_may_come_faster():
    found = replay((0, 100, 3, (0,)), (50, 20, 1, (1,)), speed=10)
    assert [record.arrived for record in found.records] == [0, 5]
    assert found.records[1].end.admitted == 5


def test_a_request_that_arrives_during_a_step_waits_from_its_own_time():
    found = replay((0, 1000, 1, ids_for(1000, 0)), (0.05, 10, 1, (9,)))
    second = found.records[1]
    assert second.arrived == 0.05 and second.end.admitted == pytest.approx(0.11)


def test_shared_content_is_computed_once():
    requests = [(0, 1300, 2, (0, 1, 2)), (9, 1300, 2, (0, 1, 2)), (18, 1100, 2, (0, 1, 7))]
    found = replay(*requests)
    assert [record.end.cached_tokens for record in found.records] == [0, 1296, 1024]
    assert found.totals.prefill_tokens == 1300 + 4 + 76
    assert found.stats.hit_tokens == 1296 + 1024
    off = replay(*requests, cached=False)
    assert off.stats is None and off.totals.prefill_tokens == 3700
    assert all(record.end.cached_tokens == 0 for record in off.records)


def test_content_without_a_name_is_never_shared():
    found = replay((0, 500, 2, None), (9, 500, 2, None))
    assert found.stats.hit_tokens == 0 and found.totals.prefill_tokens == 1000


def test_a_small_pool_evicts_and_a_request_larger_than_it_is_refused():
    requests = [(number, 1500, 4, ids_for(1500, 10 * number)) for number in range(4)]
    found = replay(*requests, (9, 5000, 1, ids_for(5000, 100)), pool_tokens=3200)
    assert found.refused == 1 and len(found.records) == 4
    assert found.stats.evicted_tokens > 1500 and found.stats.evicted_leaves >= 2


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_memory_that_runs_out_preempts_and_all_end(preemption):
    requests = [(0, 200, 150, (number,)) for number in range(6)]
    found = replay(*requests, pool_tokens=1600, preemption=preemption, host_tokens=1600)
    assert len(found.records) == 6 and found.totals.preemptions > 0
    assert all(len(record.end.outputs[0].tokens) == 150 for record in found.records)
    assert (found.totals.swapped_pages > 0) == (preemption == "swap")


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_waste_is_what_the_lengths_say(page_size):
    """One request alone: the unused slots of its last page, over the pages it holds, step by step."""
    prompt, output = 100, 40
    found = replay((0, prompt, output, (0,)), page_size=page_size, row_us=0, cached=False)
    lengths = [prompt + step for step in range(output)]
    slots = [-(-length // page_size) * page_size for length in lengths]
    assert found.usage.tail == pytest.approx((sum(slots) - sum(lengths)) / sum(slots))
    assert found.usage.pages == pytest.approx(sum(slots) / len(slots) / 8192)
    assert found.usage.unwritten == pytest.approx(prompt / sum(slots))
    assert (found.usage.sequences, found.usage.most, found.usage.cached) == (1, 1, 0)


def test_a_random_trace_in_little_memory_ends_whole():
    draw = random.Random(3)
    requests = []
    for number in range(60):
        prompt = draw.randrange(1, 1400)
        ids = tuple(draw.randrange(3) + 3 * place for place in range(-(-prompt // 512)))
        requests.append((number * 0.02, prompt, draw.randrange(1, 30), ids))
    found = replay(*requests, pool_tokens=2600, max_chunk=256, order="dfs-weight", max_bypass=3)
    assert len(found.records) == 60 and 0 < found.stats.hit_rate < 1
    assert found.totals.new_tokens == sum(request[2] for request in requests)


def test_progress_ends_with_all():
    told = []
    trace = trace_of((0, 10, 1, (0,)), (1, 10, 1, (1,)))
    Simulation(trace, PLAIN).run(lambda ended, total: told.append((ended, total)))
    assert told == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"page_size": 0}, "page_size is 0"),
        ({"pool_tokens": 8}, "pool_tokens is 8, expected at least 16"),
        ({"speed": 0}, "speed is 0, expected above 0"),
        ({"row_us": -1}, "row_us is -1"),
        ({"step_ms": float("nan")}, "step_ms is nan"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting, words):
    with pytest.raises(KgenError, match=words):
        dataclasses.replace(PLAIN, **setting)
