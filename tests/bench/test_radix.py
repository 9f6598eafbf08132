"""The trace behind `kgen bench radix`: what it sends through the cache, and that nothing is left behind."""

import json

import numpy as np
import pytest

from kgen.bench import radix, report
from kgen.bench.conversations import conversations
from kgen.runtime import PagePool, RadixCache


def test_a_session_goes_on_from_its_own_history():
    turns = conversations(40, 3, prompt_tokens=100, longest=60)
    assert len({turn.prompt[:100].tobytes() for turn in turns}) == 3
    last = {}
    for turn in turns:
        session = turn.prompt[:100].tobytes()
        before = last.get(session, turn.prompt[:100])
        assert np.array_equal(turn.prompt[: len(before)], before)
        assert 50 <= len(turn.prompt) - len(before) < 60 and 50 <= len(turn.whole) - len(turn.prompt) < 60
        last[session] = turn.whole
    again = conversations(40, 3, prompt_tokens=100, longest=60)
    assert all(np.array_equal(one.whole, two.whole) for one, two in zip(turns, again, strict=True))


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("pool_tokens", [100_000, 6_400])
def test_every_request_gives_back_what_it_took(page_size, pool_tokens):
    turns = conversations(60, 6, prompt_tokens=200, longest=70)
    flow = radix.Flow(RadixCache(PagePool(pool_tokens // page_size), page_size, check=True))
    for turn in turns:
        flow.begin(turn)
        if len(flow) > 2:
            flow.end()
    while len(flow):
        flow.end()
    cache = flow.cache
    assert not cache.locks and cache.pool.num_held == 0
    assert (cache.stats.evicted_leaves > 0) == (pool_tokens == 6_400)
    assert cache.stats.queries == 60 and cache.stats.hit_rate > 0.3
    assert len(flow.times) == 60 and all(len(times) == len(radix.STEPS) for times in flow.times)


def test_the_report_is_made_of_plain_values():
    options = {"requests": 20, "sessions": 4, "page_size": [16], "rounds": 2, "leaves": [10]}
    found = report.run("radix", options)
    plain = json.loads(json.dumps(found.json()))
    (row,) = plain["trace"]
    assert row["page_size"] == 16 and set(row["steps"]) == set(radix.STEPS) and 0 < row["hit_rate"] < 1
    assert [case["case"] for case in plain["cases"]] == [
        *["match of 131,072 tokens in one node"] * 2,
        *["match of 32,768 tokens over 2,048 nodes"] * 2,
        "evict one page of 10 leaves",
    ]
    assert found.table() is not None
