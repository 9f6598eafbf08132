"""Block tables: which pages hold the tokens of a sequence, and the token slots inside them.

A page of `block_size` tokens is a block; slot `page * block_size + offset` is the place of one token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from kgen.runtime.pages import Pages
from kgen.runtime.results import Lock

Slots = npt.NDArray[np.int64]


class Table:
    """The pages of one sequence in order: first those under its lock in the tree, then its own.

    `length`: tokens that have a slot. `num_locked`: leading pages that belong to the tree.
    """

    __slots__ = ("_buffer", "length", "lock", "num_locked", "num_pages")

    def __init__(self, pages: Pages, length: int, num_locked: int = 0, lock: Lock | None = None) -> None:
        self._buffer = np.array(pages, np.int32)
        self.num_pages = len(self._buffer)
        self.length = length
        self.num_locked = num_locked
        self.lock = lock

    @property
    def pages(self) -> Pages:
        """All pages, as a view."""
        return self._buffer[: self.num_pages]

    @property
    def own(self) -> Pages:
        """The pages that are the sequence's, alone or shared with forks, as a view."""
        return self._buffer[self.num_locked : self.num_pages]

    def add(self, page: int) -> None:
        """Append one page."""
        count = self.num_pages
        if count == len(self._buffer):
            grown = np.empty(2 * count + 8, np.int32)
            grown[:count] = self._buffer
            self._buffer = grown
        self._buffer[count] = page
        self.num_pages = count + 1

    def extend(self, pages: Pages) -> None:
        """Append several pages."""
        self._buffer = np.concatenate([self.pages, pages])
        self.num_pages = len(self._buffer)


def pages_for(num_tokens: int, block_size: int) -> int:
    """Pages that hold `num_tokens`."""
    return -(-num_tokens // block_size)


def token_slots(pages: Pages, block_size: int, start: int, stop: int) -> Slots:
    """The slots [stop - start] int64 of tokens start..stop-1 of a sequence with these pages."""
    if block_size == 1:
        return pages[start:stop].astype(np.int64)
    positions = np.arange(start, stop, dtype=np.int64)
    return pages[positions // block_size].astype(np.int64) * block_size + positions % block_size


def padded(rows: Sequence[Pages], padding: int = 0, width: int = 0) -> torch.Tensor:
    """Block tables as one int32 tensor [len(rows), max(width, longest row)], filled up with `padding`."""
    longest = max((len(row) for row in rows), default=0)
    table = np.full((len(rows), max(width, longest)), padding, np.int32)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return torch.from_numpy(table)
