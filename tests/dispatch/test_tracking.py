"""Expressions followed along their scalars: the intervals are right everywhere, and as wide as can be."""

import contextlib
import random

import pytest

from kgen.dispatch.intervals import Intervals, Tracked
from kgen.dispatch.paths import Path
from kgen.dispatch.tracking import Tracker
from kgen.semantics import INT_MAX, INT_MIN, EvaluationError, evaluate

S, T, N = ["name", "s"], ["name", "t"], ["name", "n"]


def number(value):
    return ["int", value]


def interval(code, s, **names):
    """The value of an expression over s, and where it has it."""
    tracker = Tracker(names, {"s": s})
    return tracker.constant(code), tracker.intervals["s"]


@pytest.mark.parametrize(
    ("code", "s", "value", "where"),
    [
        (["//", S, number(8)], 17, 2, (16, 23)),
        (["//", S, number(8)], -1, -1, (-8, -1)),
        (["//", ["*", number(3), S], N], 5, 1, (4, 7)),
        (["call", "ceil_div", ["call", "max", S, number(1)], number(512)], 513, 2, (513, 1024)),
        (["call", "ceil_div", ["call", "max", S, number(1)], number(512)], 0, 1, (INT_MIN, 512)),
        (["<", ["*", N, ["+", ["//", S, number(16)], number(2)]], number(240)], 17, True, (INT_MIN, 287)),
        ([">", ["call", "min", S, N, number(30)], number(11)], 99, True, (12, INT_MAX)),
        (["//", ["-", N, S], number(4)], 3, 2, (1, 4)),
        (["call", "align", S, number(16)], 16, 16, (1, 16)),
        (["<=", S, number(512)], 512, True, (INT_MIN, 512)),
        (["<=", S, number(512)], 513, False, (513, INT_MAX)),
        (["==", S, number(7)], 7, True, (7, 7)),
        (["==", S, number(7)], 9, False, (8, INT_MAX)),
        (["!=", S, number(7)], 5, True, (INT_MIN, 6)),
        (["compare", ["<", "<="], [number(0), S, number(9)]], 4, True, (1, 9)),
        (["compare", ["<", "<="], [number(0), S, number(9)]], -4, False, (INT_MIN, 0)),
        (["in", S, [number(3), number(8)]], 5, False, (4, 7)),
        (["if", [">", S, number(10)], number(1), ["//", S, number(5)]], 7, 1, (5, 9)),
        (["and", [">", S, number(10)], [">", S, number(99)]], 7, False, (INT_MIN, 10)),
        (["or", [">", S, number(10)], [">", N, number(1)]], 7, True, (INT_MIN, 10)),
        (["implies", [">", S, number(10)], ["<", S, number(50)]], 20, True, (11, 49)),
        (["<", ["neg", S], number(0)], 3, True, (1, INT_MAX)),
        (["%", S, number(4)], 6, 2, (6, 6)),
        (["*", S, S], 6, 36, (6, 6)),
        (["/", S, number(4)], 6, 1.5, (6, 6)),
        (["call", "abs", S], -6, 6, (-6, -6)),
        (["*", S, number(0)], 6, 0, (INT_MIN, INT_MAX)),
        (["-", S, S], 6, 0, (INT_MIN, INT_MAX)),
        (N, 6, 12, (INT_MIN, INT_MAX)),
    ],
)
def test_intervals(code, s, value, where):
    assert interval(code, s, n=12) == (value, where)


def test_overflow_ends_an_interval():
    value, (low, high) = interval([">", ["*", S, number(2**40)], number(0)], 1)
    assert value is True and (low, high) == (1, 2**23 - 1)


def test_scalars_narrow_their_own_intervals_and_one_is_held_where_they_meet():
    tracker = Tracker({}, {"s": 5, "t": 9})
    tracker.constant(["and", [">=", S, number(0)], ["<", T, number(10)]])
    assert tracker.intervals == {"s": (0, INT_MAX), "t": (INT_MIN, 9)}
    tracker.constant(["<", S, T])
    assert tracker.intervals == {"s": (0, 8), "t": (9, 9)}


def expression(draw, depth):
    """A random expression of ints over s, t and n."""
    if depth == 0 or draw.random() < 0.1:
        return draw.choice([S, S, T, N, number(draw.randint(-9, 9))])
    part = [expression(draw, depth - 1) for _ in range(3)]
    return draw.choice(
        [
            [draw.choice(["+", "-", "*", "//", "%"]), *part[:2]],
            ["call", draw.choice(["min", "max", "ceil_div", "align"]), *part[:2]],
            ["neg", part[0]],
            ["call", "abs", part[0]],
            ["if", condition(draw, part), *part[1:]],
        ]
    )


def condition(draw, part):
    compared = [draw.choice(["==", "!=", "<", "<=", ">", ">="]), *part[:2]]
    chain = ["compare", ["<", "<="], part]
    member = ["in", part[0], part[1:]]
    return draw.choice(
        [compared, chain, member, ["not", compared], [draw.choice(["and", "or", "implies"]), compared, chain]]
    )


def drawn(draw, count):
    """So many expressions, of those that have a value: (code, scalars, value)."""
    for _ in range(count):
        code, here = expression(draw, 4), {"s": draw.randint(-40, 40), "t": draw.randint(-5, 5)}
        with contextlib.suppress(EvaluationError):
            yield code, here, evaluate(code, {"n": 12, **here})


def test_an_expression_has_its_value_all_over_the_intervals():
    draw = random.Random(5)
    followed = wide = 0
    for code, here, value in drawn(draw, 4000):
        tracker = Tracker({"n": 12}, here)
        assert tracker.constant(code) == value
        followed += 1
        wide += tracker.intervals["s"] != (here["s"], here["s"])
        for _ in range(6):
            there = {name: near(draw, here[name], tracker.intervals[name]) for name in here}
            assert evaluate(code, {"n": 12, **there}) == value, (code, here, there)
    assert followed > 2000 and wide > 500


def test_a_path_gives_the_value_of_an_expression_all_over_its_interval():
    draw = random.Random(6)
    bends, moved = 0, set()
    for code, here, value in drawn(draw, 6000):
        tracker = Tracker({"n": 12}, here)
        tracked = tracker.follow(code)
        assert tracked.value == value
        if tracked.path is None:
            continue
        bends += bool(tracked.path.bends)
        for _ in range(6):
            there = {name: near(draw, here[name], tracker.intervals[name]) for name in here}
            found = evaluate(code, {"n": 12, **there})
            assert tracked.path.at(there[tracked.path.of]) == found, (code, here, there)
            moved.add(found != value)
    assert bends > 200 and moved == {True, False}


def test_facts_move_with_the_scalars_they_are_made_of():
    parts = ["call", "ceil_div", S, number(512)]
    facts = [("blocks", ["*", N, ["name", "parts"]]), ("parts", parts), ("rows", N)]
    names = {"n": 12, "parts": 3, "blocks": 36, "rows": 12}
    tracker = Tracker(names, {"s": 1100}, facts)
    blocks, rows = tracker.follow(["name", "blocks"]), tracker.follow(["name", "rows"])
    assert (blocks.value, blocks.path.at(5120), rows.path) == (36, 120, None)
    tracker.constant(["<", ["name", "blocks"], number(100)])
    assert tracker.intervals["s"] == (INT_MIN, 4096)
    assert tracker.constant(["name", "parts"]) == 3
    assert tracker.intervals["s"] == (1025, 1536)


def test_a_definition_is_followed_only_where_it_is_needed():
    definitions = {
        "near": ["<", S, number(100)],
        "far": ["if", ["name", "near"], number(1), ["//", S, number(8)]],
        "either": ["if", [">", N, number(1)], ["name", "far"], ["//", S, number(3)]],
        "none": ["//", N, number(0)],
        "held": ["if", ["==", N, number(12)], N, ["name", "none"]],
    }
    tracker = Tracker({"n": 12}, {"s": 7}, (), definitions)
    assert tracker.constant(["name", "held"]) == 12
    assert tracker.intervals["s"] == (INT_MIN, INT_MAX)
    assert tracker.constant(["+", ["name", "either"], ["name", "far"]]) == 2
    assert tracker.intervals["s"] == (INT_MIN, 99)
    assert set(tracker.still_names()) == {"n"}
    with pytest.raises(EvaluationError, match="division by zero"):
        tracker.constant(["name", "none"])


@pytest.mark.parametrize("count", [20, 3000])
def test_facts_made_of_each_other_many_times_over(count):
    """A few are followed; of very many the last ones hold the scalars, and the values are right."""
    facts = [("f0", S), *((f"f{i}", ["call", "max", *[["name", f"f{i - 1}"]] * 2]) for i in range(1, count))]
    names = {name: 5 for name, _ in facts}
    tracker = Tracker(names, {"s": 5}, facts)
    assert tracker.follow(["name", f"f{count - 1}"]).value == 5
    assert tracker.intervals["s"] == ((INT_MIN, INT_MAX) if count == 20 else (5, 5))
    tracker = Tracker({}, {"s": 5}, (), dict(facts))
    assert tracker.follow(["name", f"f{count - 1}"]).value == 5


def test_an_int_that_leaves_64_bits_ends_an_interval():
    tracker = Tracker({}, {"s": 100})
    sized = tracker.follow(["*", ["call", "align", S, number(64)], number(2**40)])
    high = tracker.intervals["s"][1]
    assert sized.path.at(high) <= INT_MAX < sized.path.at(high + 1)


def near(draw, value, where):
    """A value of an interval: its ends more often than others, no further than 60 away."""
    low, high = max(where[0], value - 60), min(where[1], value + 60)
    return draw.choice([low, high, draw.randint(low, high)])


@pytest.mark.parametrize(("factor", "offset"), [(INT_MAX + 1, 0), (2, -2 * (INT_MAX + 1))])
def test_a_path_that_needs_more_than_64_bits_is_held(factor, offset):
    """Launches compute paths with ints of 64 bits, and so does the value have to fit."""
    here = 0 if offset == 0 else INT_MAX
    intervals = Intervals({"s": here})
    found = intervals.straight(Tracked(here, Path("s")), factor, offset)
    assert found == Tracked(factor * here + offset)
    assert intervals.intervals["s"] == (here, here)
