"""The ordered set of leaves against Python's own sort."""

import random

import pytest

from kgen.runtime.order import BLOCK, SortedEntries


def test_it_gives_entries_in_order_through_adds_and_removes():
    draw = random.Random(5)
    entries: SortedEntries[tuple[int, int]] = SortedEntries()
    model: set[tuple[int, int]] = set()
    for number in range(12 * BLOCK):
        if model and draw.random() < 0.3:
            gone = draw.choice(sorted(model)[:50])
            entries.remove(gone)
            model.remove(gone)
        elif model and draw.random() < 0.1:
            assert entries.pop_first() == min(model)
            model.remove(min(model))
        else:
            entry = (draw.randrange(1000), number)
            entries.add(entry)
            model.add(entry)
        if number % 500 == 0:
            assert list(entries) == sorted(model)
    assert list(entries) == sorted(model) and len(entries) == len(model)
    while model:
        assert entries.pop_first() == min(model)
        model.remove(min(model))
    assert not entries


def test_what_is_not_there_cannot_be_removed():
    entries: SortedEntries[tuple[int, int]] = SortedEntries()
    entries.add((1, 1))
    for absent in [(0, 0), (1, 2), (9, 9)]:
        with pytest.raises(KeyError):
            entries.remove(absent)
    assert list(entries) == [(1, 1)]
    with pytest.raises(IndexError):
        SortedEntries().pop_first()
