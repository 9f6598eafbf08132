"""Definitions in an order in which each knows what it names, and their circles."""

import pytest

from kgen.diagnostics import Collector
from kgen.spec.model import Let
from kgen.spec.order import in_order
from kgen.syntax.ast import NOWHERE
from kgen.syntax.parser import parse_expr


def ordered(definitions):
    found = Collector()
    lets = [Let(name, parse_expr(text), NOWHERE) for name, text in definitions.items()]
    placed = in_order(lets, "derived value", found)
    return [let.name for let in placed], [d.message for d in found.diagnostics]


@pytest.mark.parametrize(
    ("definitions", "order"),
    [
        ({"a": "1", "b": "2", "c": "3"}, ["a", "b", "c"]),
        ({"a": "c + d", "b": "1", "c": "b", "d": "4"}, ["b", "c", "d", "a"]),
        ({"c": "b", "b": "a", "a": "head_dim"}, ["a", "b", "c"]),
        ({"a": "b.wave", "b": "1"}, ["b", "a"]),
    ],
)
def test_order(definitions, order):
    assert ordered(definitions) == (order, [])


@pytest.mark.parametrize(
    ("definitions", "order", "circles"),
    [
        ({"a": "a"}, [], ["a -> a"]),
        ({"after": "b", "b": "c", "c": "b", "d": "1"}, ["d"], ["b -> c -> b"]),
        ({"z": "y", "x": "w", "w": "x", "y": "z"}, [], ["z -> y -> z", "x -> w -> x"]),
        ({"a": "b + c", "b": "a", "c": "a"}, [], ["a -> b -> a"]),
        ({f"v{i}": f"v{(i + 1) % 8}" for i in range(8)}, [], [" -> ".join(f"v{i % 8}" for i in range(9))]),
        (
            {f"v{i}": f"v{(i + 1) % 500}" for i in range(500)},
            [],
            ["v0 -> v1 -> v2 -> v3 -> v4 -> v5 -> v6 -> v7 -> ... -> v0 (500 names)"],
        ),
    ],
)
def test_circles_are_told_from_the_name_that_stands_first(definitions, order, circles):
    assert ordered(definitions) == (order, [f"circular derived value: {circle}" for circle in circles])
