"""What wins: medians, ties and noise, with times that are given."""

import itertools

import pytest

from kgen.tune.decide import spreads_of, winner


def best(times, rule="rule"):
    return winner(spreads_of(times), rule)


@pytest.mark.parametrize(
    ("times", "wins"),
    [
        ({"rule": [10, 10, 10], "other": [9, 9, 9]}, "other"),
        ({"rule": [10, 10, 10], "other": [10, 10, 10]}, "rule"),  # a tie is no win
        ({"rule": [10, 10, 10], "other": [11, 11, 11]}, "rule"),
        ({"rule": [8, 10, 12], "other": [8, 8.1, 8.2]}, "rule"),  # 1.9 better, quartiles 2 apart
        ({"rule": [8, 10, 12], "other": [7.8, 7.9, 8.0]}, "other"),
        ({"rule": [10, 10, 10], "other": [7, 9, 11]}, "rule"),  # the other's own scatter counts as well
        ({"rule": [10, 10, 10], "other": [5, 9.9, 50]}, "rule"),
        ({"rule": [10, 10, 90], "other": [11, 11, 11]}, "rule"),  # one slow round is no slow kernel
        ({"rule": [10, 10, 10]}, "rule"),
        ({"rule": [10], "other": [9]}, "other"),
    ],
)
def test_who_wins(times, wins):
    assert best(times) == wins


def test_the_fastest_of_several_wins():
    times = {"rule": [10] * 3, "a": [9] * 3, "b": [7] * 3, "c": [8] * 3}
    for order in itertools.permutations(times):
        assert best({name: times[name] for name in order}) == "b"


def test_of_those_as_fast_as_the_fastest_the_first_wins():
    a, b, c = [7.0, 7.2, 7.4], [7.0, 7.1, 7.2], [8.0, 8.1, 8.2]
    assert best({"rule": [10] * 3, "a": a, "b": b, "c": c}) == "a"
    assert best({"rule": [10] * 3, "b": b, "a": a, "c": c}) == "b"
    assert best({"c": c, "rule": [10] * 3, "a": a, "b": b}) == "a"


def test_a_rule_that_ties_with_the_fastest_stays():
    assert best({"a": [9.0, 9.2, 9.4], "rule": [9.1, 9.3, 9.5], "b": [20] * 3}) == "rule"
