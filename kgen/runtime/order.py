"""A set of entries in order, whose cost hardly depends on how many there are.

The entries lie in sorted blocks of bounded length, so that adding, removing and taking the first are a
search over blocks, a search in one block and a short move of memory, all done by `bisect` and `list`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

Entry = TypeVar("Entry", bound=tuple[object, ...])

BLOCK = 512


class SortedEntries(Generic[Entry]):
    """Distinct tuples that compare with each other."""

    def __init__(self) -> None:
        self._blocks: list[list[Entry]] = []
        self._tops: list[Entry] = []  # not smaller than any entry of a block, smaller than the next block's
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        for block in self._blocks:
            yield from block

    def pop_first(self) -> Entry:
        """Take out the smallest entry; raises IndexError when there is none."""
        block = self._blocks[0]
        entry = block[0]
        del block[0]
        self._count -= 1
        if not block:
            del self._blocks[0], self._tops[0]
        return entry

    def add(self, entry: Entry) -> None:
        """Put in an entry that is not there yet."""
        self._count += 1
        tops = self._tops
        if not tops:
            self._blocks.append([entry])
            tops.append(entry)
            return
        at = bisect_left(tops, entry)
        if at == len(tops):
            at -= 1
            tops[at] = entry
            self._blocks[at].append(entry)
        else:
            insort(self._blocks[at], entry)
        if len(self._blocks[at]) > 2 * BLOCK:
            self._halve(at)

    def remove(self, entry: Entry) -> None:
        """Take out an entry; raises KeyError when it is not there."""
        at = bisect_left(self._tops, entry)
        block = self._blocks[at] if at < len(self._tops) else []
        place = bisect_left(block, entry)
        if place == len(block) or block[place] != entry:
            raise KeyError(entry)
        del block[place]
        self._count -= 1
        if not block:
            del self._blocks[at], self._tops[at]

    def _halve(self, at: int) -> None:
        block = self._blocks[at]
        self._blocks[at : at + 1] = [block[:BLOCK], block[BLOCK:]]
        self._tops[at : at + 1] = [block[BLOCK - 1], block[-1]]
