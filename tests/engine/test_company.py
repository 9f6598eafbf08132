"""Requests of every kind in little memory, some aborted, some retracted: each ends as it would alone."""

import random

import pytest

from kgen.engine import GenerateRequest, RequestResult, SamplingParams
from tests.engine.samples import assert_whole, draw_prompts, make_engine

KINDS = (
    {"max_new_tokens": 9},
    {"max_new_tokens": 14, "temperature": 0.9, "top_k": 20, "seed": 2},
    {"max_new_tokens": 8, "temperature": 1.0, "top_p": 0.8, "n": 3},
    {"max_new_tokens": 10, "beams": 3},
    {"max_new_tokens": 12, "beams": 2, "length_penalty": 0.5, "stop_tokens": (7, 8, 9)},
)
PROMPTS = [*draw_prompts(4, 37, 61, seed=5), *draw_prompts(50, 45, 33, seed=6, shared=33)]


@pytest.fixture(scope="module")
def alone(model):
    """What each prompt gives with each way to choose tokens, nobody else being there."""
    found = {}
    for place, prompt in enumerate(PROMPTS):
        for kind, params in enumerate(KINDS):
            request = GenerateRequest(0, prompt, SamplingParams(**params))
            (result,) = make_engine(model).generate([request])
            found[place, kind] = [each.tokens for each in result.completions]
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "settings",
    [
        {"blocks": 20, "max_chunk": 11},
        {"blocks": 24, "preemption": "swap", "host_blocks": 9, "order": "fcfs"},
        {"blocks": 20, "prefix_cache": False, "max_batch_tokens": 24},
        {"blocks": 330, "block_size": 1, "order": "priority", "policy": "lfu", "max_batch_tokens": 40},
    ],
    ids=["cached", "swapping", "plain", "by token"],
)
def test_everyone_ends_as_if_alone(model, alone, settings, seed):
    draw = random.Random(seed)
    engine = make_engine(model, **settings)
    kinds, results, aborted = {}, {}, set()
    for name in range(10_000):
        if len(kinds) < 24 and draw.random() < 0.4:
            kinds[name] = draw.randrange(len(PROMPTS)), draw.randrange(len(KINDS))
            place, kind = kinds[name]
            params, priority = SamplingParams(**KINDS[kind]), draw.randrange(3)
            engine.submit(GenerateRequest(name, PROMPTS[place], params, priority=priority))
        events = engine.step()
        results |= {event.request_id: event for event in events if isinstance(event, RequestResult)}
        under_way = sorted(kinds.keys() - results.keys() - aborted)
        if under_way and draw.random() < 0.05:
            engine.scheduler.retract(draw.choice(under_way), draw.choice(("recompute", "swap")))
        if under_way and draw.random() < 0.05:
            victim = draw.choice(under_way)
            aborted.add(victim)
            engine.abort(victim)
        if len(kinds) == 24 and not engine.has_work:
            break
    assert results.keys() | aborted == kinds.keys() and len(results) > 12
    for name, result in results.items():
        assert [each.tokens for each in result.completions] == alone[kinds[name]], (name, kinds[name])
    assert engine.stats.requests == len(results) and engine.stats.preemptions > 0
    assert_whole(engine)
