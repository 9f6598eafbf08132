"""The figures of a replay."""

import json

import pytest

from kgen.replay.report import report
from kgen.replay.simulate import Settings, Simulation
from tests.replay.samples import trace_of


def replayed(*requests, **more):
    trace = trace_of(*requests)
    settings = Settings(pool_tokens=8192, step_ms=10, row_us=100, **more)
    return report(trace, Simulation(trace, settings).run())


def test_rates_and_latencies_are_those_of_the_requests():
    found = replayed((0, 1300, 2, (0, 1, 2)), (9, 1300, 3, (0, 1, 2)))
    assert (found.prompt_tokens, found.hit_tokens, found.output_tokens) == (2600, 1296, 5)
    assert found.hit_rate == 1296 / 2600
    first = found.latencies["first token"]
    assert (first.worst, first.mean) == pytest.approx((0.14, (0.14 + 0.0104) / 2))
    assert found.latencies["token to token"].p50 == pytest.approx(0.0101)
    assert found.latencies["queue"].worst == 0


def test_the_document_is_plain():
    plain = json.loads(json.dumps(replayed((0, 30, 2, (0,))).json()))
    assert plain["requests"] == 1 and plain["hit_rate"] == 0 and plain["totals"]["decode_tokens"] == 1
    assert plain["cache"]["stored_tokens"] == 16 and set(plain["latencies"]) == {
        *("queue", "first token", "token to token", "whole request")
    }


def test_requests_of_one_token_have_no_time_between_tokens():
    found = replayed((0, 30, 1, None), cached=False)
    assert "token to token" not in found.latencies and found.json()["cache"] is None
    assert not found.json()["names_content"]


def test_a_trace_of_which_all_is_refused_has_figures_too():
    found = replayed((0, 9000, 1, None))
    assert (found.run.refused, found.hit_rate, found.latencies) == (1, 0, {})
    assert found.tables() is not None
