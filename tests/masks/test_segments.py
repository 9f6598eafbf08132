"""Segments against brute force: no visible pair is skipped, no masked one is used, full ones need no test."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.masks.regions import regions
from kgen.masks.segments import Segments, segments
from kgen.syntax.ast import Binary, Int, Name
from tests.masks.mask_samples import (
    BATCH,
    QUERIES,
    Tile,
    arguments,
    random_arguments,
    random_masks,
    random_tile,
    shared,
    visible,
)

CASES = 3000
"""Of each shared mask."""


def names_of(tile: Tile, args: dict[str, object]) -> dict[str, object]:
    return {
        **args,
        "batch": BATCH,
        **dict(zip(("q.lo", "q.hi", "kv.begin", "kv.end", "tile"), tile, strict=True)),
    }


def fault_in(found: Segments, tile: Tile, args: dict[str, object], sees: np.ndarray) -> str:
    """What is wrong with the segments of a tile; empty where they are right."""
    low, high, begin, end, size = tile
    rows = sees[low - QUERIES[0] : high - QUERIES[0] + 1]
    place, covered = begin, np.zeros(sees.shape[1], bool)
    for start, stop, full in found.at(names_of(tile, args)):
        if not place <= start < stop <= end:
            return f"[{start}, {stop}) lies outside of [{place}, {end})"
        if (start - begin) % size or (full and (stop - begin) % size):
            return f"[{start}, {stop}) does not begin and end with a tile"
        if full and not rows[:, start:stop].all():
            return f"[{start}, {stop}) is called full, but a pair in it is masked"
        covered[start:stop] = True
        place = stop if (stop - begin) % size == 0 else end
    lost = (rows[:, begin:end] & ~covered[begin:end]).any()
    return "a visible pair is skipped" if lost else ""


@pytest.mark.parametrize("name", shared())
def test_shared_masks(name: str):
    rng = np.random.default_rng(0)
    found = segments(regions(shared()[name]))
    for _ in range(CASES // 20):
        args = arguments(name, rng)
        sees = visible(shared()[name], args)
        for tile in (random_tile(rng) for _ in range(20)):
            assert fault_in(found, tile, args, sees) == "", (tile, args)


TILES = st.tuples(
    st.integers(QUERIES[0], 30), st.integers(0, 8), st.integers(0, 9), st.integers(0, 31), st.integers(1, 8)
)


@given(random_masks(), random_arguments(), TILES)
@settings(max_examples=600, deadline=None)
def test_random_masks(mask, args, drawn):
    low, more, begin, length, size = drawn
    tile = (low, low + more, begin, min(begin + length, 40), size)
    found = segments(regions(mask))
    assert fault_in(found, tile, args, visible(mask, args)) == ""
    fixed = segments(regions(mask), Int(begin), Int(size))
    assert fault_in(fixed, tile, args, visible(mask, args)) == ""


def keys_of(found: Segments, tile: Tile, args: dict[str, object]) -> set[int]:
    return {key for start, stop, _ in found.at(names_of(tile, args)) for key in range(start, stop)}


@given(random_masks(), random_arguments(), TILES, st.integers(0, 8), st.integers(0, 8))
@settings(max_examples=600, deadline=None)
def test_more_queries_reach_all_that_fewer_do(mask, args, drawn, before, after):
    """So that a kernel may check the pages of a whole sequence once, and then go tile by tile."""
    low, more, begin, length, size = drawn
    few = (low, low + more, begin, min(begin + length, 40), size)
    many = (low - before, low + more + after, *few[2:])
    found = segments(regions(mask))
    assert keys_of(found, few, args) <= keys_of(found, many, args)


def moved(found: Segments, step: int, by: int) -> Segments:
    """The segments with one bound moved."""
    one = found.steps[step]
    changed = dataclasses.replace(one, value=Binary("+", one.value, Int(by)))
    return dataclasses.replace(found, steps=(*found.steps[:step], changed, *found.steps[step + 1 :]))


HARM = {"keys_begin": 1, "keys_end": -1, "full_begin": -1, "full_end": 1}
"""Which way a bound of each kind must not go."""


@pytest.mark.parametrize("name", shared())
def test_a_bound_that_is_moved_is_noticed(name: str):
    """Each bound in the direction that does harm: an end too low or a beginning too high loses pairs, a
    full end too high or a full beginning too low uses masked ones."""
    rng = np.random.default_rng(1)
    found = segments(regions(shared()[name]), tile=Int(1))
    samples = []
    for _ in range(100):
        args = arguments(name, rng)
        sees = visible(shared()[name], args)
        samples += [((*random_tile(rng)[:4], 1), args, sees) for _ in range(10)]
    for place, step in enumerate(found.steps):
        harm = HARM[step.name.rstrip("_0123456789")]
        broken = moved(found, place, harm)
        assert any(fault_in(broken, *sample) for sample in samples), step.name


def test_a_causal_mask_skips_and_tests_what_a_hand_written_kernel_does():
    """The 3 x 7 example with tiles of 2, and the count of skipped and of tested tiles for n query tiles
    behind p prefix tiles."""
    found = segments(regions(shared()["causal"]), Int(0), Int(2))
    assert found.at({"q.lo": 4, "q.hi": 5, "kv.end": 7}) == ((0, 4, True), (4, 6, False))
    assert found.at({"q.lo": 6, "q.hi": 6, "kv.end": 7}) == ((0, 6, True), (6, 7, False))
    size = 16
    wide = segments(regions(shared()["causal"]), Int(0), Int(size))
    for n, p in itertools.product((1, 3, 8), (0, 1, 56)):
        done = tested = 0
        for i in range(n):
            low = (p + i) * size
            for begin, end, full in wide.at({"q.lo": low, "q.hi": low + size - 1, "kv.end": (p + n) * size}):
                done += (end - begin) // size
                tested += 0 if full else (end - begin) // size
        assert n * (n + p) - done == n * (n - 1) // 2
        assert tested == n


def test_the_tiles_of_new_keys_start_where_the_prefix_ends():
    """With the new keys in memory of their own, a prefix of 5 and tiles of 4: no tile crosses over."""
    found = segments(regions(shared()["causal"]), tile=Int(4))
    old = {"q.lo": 5, "q.hi": 8, "kv.begin": 0, "kv.end": 5}
    assert found.at(old) == ((0, 4, True), (4, 5, False))
    assert found.at({**old, "kv.begin": 5, "kv.end": 14}) == ((5, 9, False),)


def test_a_window_starts_late_and_sinks_are_a_loop_of_their_own():
    names = {"q.lo": 100, "q.hi": 103, "kv.end": 104, "window": 20, "sinks": 4}
    sliding = segments(regions(shared()["sliding"]), Int(0), Int(16))
    assert sliding.at(names) == ((80, 96, False), (96, 104, False))
    sinks = segments(regions(shared()["sinks"]), Int(0), Int(4))
    assert sinks.at(names) == (
        (0, 4, True), (80, 84, False), (84, 100, True), (100, 104, False),
    )  # fmt: skip


def test_chunks_and_a_prefix_are_solved_too():
    names = {"q.lo": 40, "q.hi": 43, "kv.end": 64, "chunk": 16, "prefix": [56], "batch": 0}
    chunked = segments(regions(shared()["chunked"]), Int(0), Int(4))
    assert chunked.at(names) == ((32, 40, True), (40, 44, False))
    prefix = segments(regions(shared()["prefix_lm"]), Int(0), Int(4))
    assert prefix.at(names) == ((0, 56, True),)


def test_a_document_mask_is_tested_up_to_the_diagonal():
    found = segments(regions(shared()["document"]), Int(0), Int(4))
    assert found.at({"q.lo": 8, "q.hi": 11, "kv.end": 64}) == ((0, 12, False),)
    assert not regions(shared()["document"]).exact
    assert regions(shared()["chunked"]).exact


def test_steps_speak_of_names_alone():
    found = segments(regions(shared()["causal"]), Int(0), Int(16))
    assert {segment.begin for segment in found.segments} == {Int(0), Name("full_end")}
