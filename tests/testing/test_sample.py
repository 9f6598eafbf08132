import itertools
import random

import pytest

from kgen.testing.sample import cover, pairwise, product

AXES = {"a": [1, 2, 3, 4], "b": ["x", "y", "z"], "c": [True, False], "d": [0, 256, 512]}


def all_pairs(rows):
    return {pair for row in rows for pair in itertools.combinations(sorted(row.items()), 2)}


def test_every_pair_is_held():
    rows = pairwise(AXES)
    for (one, ones), (two, twos) in itertools.combinations(AXES.items(), 2):
        seen = {(row[one], row[two]) for row in rows}
        assert seen == set(itertools.product(ones, twos)), (one, two)


def test_the_sample_is_small():
    assert len(product(AXES)) == 72
    assert 12 <= len(pairwise(AXES)) <= 15


def test_the_same_rows_every_time():
    assert pairwise(AXES) == pairwise({name: list(values) for name, values in AXES.items()})


def test_only_allowed_rows_and_all_their_pairs():
    def allowed(row):
        return not (row["a"] == 1 and row["d"] == 512) and row["c"] != (row["b"] == "x")

    rows = pairwise(AXES, allowed)
    assert all(allowed(row) for row in rows)
    assert all_pairs(rows) == all_pairs([row for row in product(AXES) if allowed(row)])


def test_one_axis_is_taken_whole():
    assert pairwise({"a": [3, 1, 2]}) == [{"a": 3}, {"a": 1}, {"a": 2}]


def test_cover_keeps_items_and_their_order():
    rows = product(AXES)
    random.Random(5).shuffle(rows)
    chosen = cover(list(enumerate(rows)), lambda item: item[1])
    assert [index for index, _ in chosen] == sorted(index for index, _ in chosen)
    assert all_pairs([row for _, row in chosen]) == all_pairs(rows)


@pytest.mark.parametrize("items", [[], [{}]])
def test_nothing_to_cover(items):
    assert cover(items, lambda row: row) == []
