"""KV memory stood in for by one number a slot, so that a test can say what lies where.

The KV of a token depends on every token up to it, and on the namespace. `kv_of` is a number with the same
property: two slots hold the same number only if they may stand for each other.
"""

import numpy as np

from kgen.runtime.keys import DEFAULT, Namespace
from kgen.runtime.tables import token_slots


def kv_of(tokens, namespace: Namespace = DEFAULT) -> list[int]:
    """What each token's slot must hold."""
    found, value = [], hash((namespace.adapter, namespace.salt, namespace.media)) % 1_000_003
    for token in tokens:
        value = (value * 1_000_003 + int(token) + 1) % (2**61 - 1)
        found.append(value)
    return found


class Memory:
    """Slots of `num_pages` pages; a page that was never written holds -1."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.page_size = page_size
        self.slots = np.full(num_pages * page_size, -1, np.int64)

    def write(self, slots, values) -> None:
        self.slots[np.asarray(slots)] = values

    def read(self, pages, count: int) -> list[int]:
        """The first `count` slots of these pages."""
        return self.slots[token_slots(np.asarray(pages, np.int32), self.page_size, 0, count)].tolist()

    def scramble(self, pool) -> None:
        """Spoil the pages that nobody owns, so that whoever reads one is found out."""
        self.slots.reshape(-1, self.page_size)[pool.ref_counts == 0] = -1

    def copy(self, pairs, source: "Memory | None" = None) -> None:
        """Copy pages; all are read before any is written."""
        by_page = self.slots.reshape(-1, self.page_size)
        theirs = (source or self).slots.reshape(-1, self.page_size)
        if len(pairs):
            sources, targets = zip(*pairs, strict=True)
            by_page[list(targets)] = theirs[list(sources)]
