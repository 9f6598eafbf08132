"""A small part of a big matrix that still tries every pair of values together.

Most faults of a specialised kernel come from one value or from two together (a block size with a
layout, a head_dim with a dtype), so a set of rows in which every pair of values that can occur does
occur finds nearly all of what the whole product would. `cover` chooses such a set: greedy, the
row with the most pairs not yet seen first, and the same rows every time.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kgen.manifest import Scalar

Row = Mapping[str, Scalar]
Item = TypeVar("Item")


def product(axes: Mapping[str, Sequence[Scalar]]) -> list[dict[str, Scalar]]:
    """Every combination of the axes, the last axis fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def cover(items: Iterable[Item], row: Callable[[Item], Row]) -> list[Item]:
    """The chosen items, in their given order: every pair that some item holds, a chosen one holds.

    A pair is two (axis, value); a lone axis pairs with itself. A gain can only fall as items are
    chosen, so a heap of gains computed earlier finds the best item without looking at all again.
    """
    given = list(items)
    held = _numbered_pairs([row(item) for item in given])
    missing = set().union(*held)
    order = list(range(len(given)))
    random.Random(0).shuffle(order)  # ties in the given order would take neighbours
    heap = [(-len(held[index]), place, index) for place, index in enumerate(order)]
    heapq.heapify(heap)
    chosen = []
    while missing:
        _, place, index = heapq.heappop(heap)
        gain = len(held[index] & missing)
        if heap and (-gain, place, index) > heap[0]:
            heapq.heappush(heap, (-gain, place, index))
            continue
        chosen.append(index)
        missing -= held[index]
    return [given[index] for index in sorted(chosen)]


def _numbered_pairs(rows: Sequence[Row]) -> list[frozenset[int]]:
    """The pairs each row holds, as numbers that are cheap to compare."""
    numbers: dict[tuple[str, Scalar], int] = {}
    held = []
    for row in rows:
        ids = sorted(numbers.setdefault(item, len(numbers)) for item in row.items())
        twos = itertools.combinations(ids, 2) if len(ids) > 1 else ((one, one) for one in ids)
        held.append(frozenset((one << 32) + two for one, two in twos))
    return held


def pairwise(
    axes: Mapping[str, Sequence[Scalar]], allowed: Callable[[Row], bool] = lambda row: True
) -> list[dict[str, Scalar]]:
    """Rows over the axes that hold every pair some allowed row holds."""
    return cover([row for row in product(axes) if allowed(row)], lambda row: row)
