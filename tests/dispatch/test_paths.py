"""Paths: forwards they give the int, backwards the values of the scalar that give it."""

import itertools
import random

import pytest

from kgen.dispatch.paths import Bend, Path


def random_path(draw):
    path = Path("s")
    for _ in range(draw.randint(0, 4)):
        kind = draw.choice(["//", "min", "max", "straight"])
        if kind == "straight":
            path = path.straight(draw.choice([-3, -1, 1, 2, 5]), draw.randint(-9, 9))
        else:
            path = path.bent(kind, draw.randint(1, 7) if kind == "//" else draw.randint(-20, 20))
    return path


def test_backwards_are_exactly_the_values_that_give_it():
    draw = random.Random(8)
    for _ in range(3000):
        path, here = random_path(draw), draw.randint(-50, 50)
        value = path.at(here)
        low, high = value - draw.randint(0, 3), value + draw.randint(0, 3)
        first, last = path.back(low, high)
        for scalar in range(-80, 80):
            assert (first <= scalar <= last) == (low <= path.at(scalar) <= high), (path, scalar, low, high)


@pytest.mark.parametrize("factor", [1, -1, 3, -4])
def test_straight_pieces_behind_one_another_are_one(factor):
    path = Path("s").straight(factor, 5).straight(2, -1)
    assert path == Path("s", (), 2 * factor, 9)
    assert path.bent("max", 3).bends == (Bend(2 * factor, 9, "max", 3),)
    for one, other in itertools.pairwise(range(-5, 5)):
        assert path.at(other) - path.at(one) == 2 * factor
