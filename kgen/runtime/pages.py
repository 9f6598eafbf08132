"""Who owns each page of KV memory. The block manager and the radix cache share one pool.

A page is in exactly one of three states, all kept in `ref_counts`:

    free      0          on the stack of free pages
    held      1, 2, ...  in the tables of so many sequences; one may write to it when it holds it alone
    cached    CACHED     owned by the radix tree, which knows from its locks whether it is in use

    allocate: free -> held        share: held + 1      release: held - 1, free at 0
    adopt:    held by one -> cached                    drop:    cached -> free

free + held + cached == num_pages always. Every operation checks the state of each page it is given, and
that it is given once, before it changes anything.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from kgen.diagnostics import KgenError
from kgen.runtime.errors import fault, out_of_pages, whole

CACHED = -1

Pages = npt.NDArray[np.int32]
_Index = npt.NDArray[np.intp]

# All pages of a list in one state are compared as bytes, several times as fast as by numpy for short lists.
_ONE = np.int32(1).tobytes()
_CACHED = np.int32(CACHED).tobytes()


class Reclaimer(Protocol):
    """Whoever can turn cached pages into free ones."""

    @property
    def evictable_pages(self) -> int: ...

    def reclaim(self, num_pages: int) -> int:
        """Free at least `num_pages` if that many are evictable; returns how many were freed."""


class PagePool:
    """`num_pages` pages, all free at first. Arrays of page ids are int32."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = whole("num_pages", num_pages)
        self.ref_counts = np.zeros(num_pages, np.int32)
        self.reclaimer: Reclaimer | None = None
        self._stack = np.arange(num_pages - 1, -1, -1, dtype=np.intp)
        self._num_free = num_pages
        self._num_cached = 0
        self._numbers = np.arange(num_pages, dtype=np.int32)
        self._marks = np.empty(num_pages, np.int32)

    @property
    def num_free(self) -> int:
        """Pages nobody owns."""
        return self._num_free

    @property
    def num_cached(self) -> int:
        """Pages of the radix tree, in use or not."""
        return self._num_cached

    @property
    def num_held(self) -> int:
        """Pages in the tables of sequences and not in the tree; a shared one counts once."""
        return self.num_pages - self._num_free - self._num_cached

    @property
    def num_available(self) -> int:
        """Pages `allocate` can give: free ones, and those it may have evicted."""
        reclaimer = self.reclaimer
        return self._num_free + (reclaimer.evictable_pages if reclaimer is not None else 0)

    def allocate(self, count: int) -> Pages:
        """`count` pages held by one sequence each, evicting no more than is short. Raises K702."""
        short = whole("count", count) - self._num_free
        if short > 0:
            self._reclaim(count, short)
        top = self._num_free
        index = self._stack[top - count : top][::-1]
        self.ref_counts[index] = 1
        self._num_free = top - count
        return index.astype(np.int32)

    def share(self, pages: Pages) -> None:
        """One more sequence holds each of these held pages."""
        index, counts = self._held(pages, "shared")
        self.ref_counts[index] = counts + 1

    def release(self, pages: Pages) -> int:
        """One sequence less holds each of these; those held by nobody become free. Returns how many."""
        index, counts = self._held(pages, "released")
        self.ref_counts[index] = counts - 1
        if counts.tobytes() != _ONE * len(index):
            index = index[counts == 1]
        self._push(index)
        return len(index)

    def adopt(self, pages: Pages) -> None:
        """The tree takes over pages that one sequence holds alone."""
        index, counts = self._held(pages, "given to the tree")
        if counts.tobytes() != _ONE * len(index):
            page = int(pages[np.argmax(counts != 1)])
            raise fault("K703", f"page {page} is held by several sequences and cannot be given to the tree")
        self.ref_counts[index] = CACHED
        self._num_cached += len(index)

    def drop(self, pages: Pages) -> None:
        """The tree gives up these pages of its own; they become free."""
        index, counts = self._counts(pages)
        if counts.tobytes() != _CACHED * len(index):
            raise self._wrong(int(pages[np.argmax(counts != CACHED)]), "dropped by the tree")
        self.ref_counts[index] = 0
        self._num_cached -= len(index)
        self._push(index)

    def findings(self) -> list[str]:
        """What disagrees between counts, states and the stack; empty when all is well."""
        found = []
        free = self._stack[: self._num_free]
        if len(np.unique(free)) != len(free):
            found.append("a page is on the free stack twice")
        if np.count_nonzero(self.ref_counts[free]):
            found.append("a page on the free stack is owned")
        if np.count_nonzero(self.ref_counts == 0) != self._num_free:
            found.append("a page nobody owns is not on the free stack")
        if np.count_nonzero(self.ref_counts == CACHED) != self._num_cached:
            found.append("the count of cached pages is wrong")
        if np.count_nonzero(self.ref_counts < CACHED):
            found.append("a page has a negative reference count")
        return found

    def _reclaim(self, count: int, short: int) -> None:
        reclaimer = self.reclaimer
        evictable = reclaimer.evictable_pages if reclaimer is not None else 0
        if reclaimer is None or evictable < short:
            raise out_of_pages(count, self._num_free, evictable)
        reclaimer.reclaim(short)

    def _push(self, index: _Index) -> None:
        top = self._num_free
        self._num_free = top + len(index)
        self._stack[top : self._num_free] = index[::-1]  # the next allocation gives the same run

    def _held(self, pages: Pages, verb: str) -> tuple[_Index, Pages]:
        """Where pages that must be held are, and their reference counts."""
        index, counts = self._counts(pages)
        if counts.tobytes() != _ONE * len(index) and np.count_nonzero(counts < 1):
            raise self._wrong(int(pages[np.argmax(counts < 1)]), verb)
        return index, counts

    def _counts(self, pages: Pages) -> tuple[_Index, Pages]:
        """Where these pages are, and their reference counts. Raises K703 for ids outside the pool and for one
        that occurs twice: each page is marked with its place in the list, and must still have it after."""
        index = pages.view(np.uint32).astype(np.intp)  # a negative id becomes one outside the pool
        numbers = self._numbers[: len(index)]
        try:
            self._marks[index] = numbers
        except (IndexError, ValueError):
            raise self._outside(pages) from None
        if self._marks[index].tobytes() != numbers.tobytes():
            raise fault("K703", "a page occurs twice in one list of pages")
        return index, self.ref_counts[index]

    def _outside(self, pages: Pages) -> KgenError:
        outside = (pages < 0) | (pages >= self.num_pages)
        if not outside.any():
            return fault("K703", f"{len(pages)} pages are listed; there are only {self.num_pages}")
        page = int(pages[np.argmax(outside)])
        return fault("K703", f"page {page} does not exist; pages are 0 to {self.num_pages - 1}")

    def _wrong(self, page: int, verb: str) -> KgenError:
        state = {0: "is free", CACHED: "belongs to the tree"}.get(int(self.ref_counts[page]), "is held")
        return fault("K703", f"page {page} {state} and cannot be {verb}", hint="each owner releases once")
