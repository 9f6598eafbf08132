"""What many runtime tests begin with."""

from contextlib import contextmanager

import numpy as np
import pytest

from kgen.diagnostics import KgenError
from kgen.runtime.blocks import BlockManager
from kgen.runtime.keys import DEFAULT, Key
from kgen.runtime.pages import PagePool
from kgen.runtime.radix import RadixCache


def cache_of(num_pages: int, page_size: int = 1, policy: str = "lru", **more) -> RadixCache:
    """A cache over a pool of its own, verified after every operation."""
    return RadixCache(PagePool(num_pages), page_size, policy, check=True, **more)


def manager_of(num_pages: int, block_size: int = 1, *, cached: bool = True, **more) -> BlockManager:
    """A block manager, with a cache unless told otherwise, both verified after every operation."""
    pool = PagePool(num_pages)
    cache = RadixCache(pool, block_size, check=True) if cached else None
    return BlockManager(pool, block_size, cache, **{"watermark": 0.0, "check": True, **more})


def store(cache: RadixCache, tokens, namespace=DEFAULT, priority: int = 0) -> np.ndarray:
    """Put tokens in the tree as a request would that computed all of them; returns the pages it had."""
    tokens = list(tokens)
    pages = cache.pool.allocate(len(tokens) // cache.page_size)
    stored = cache.insert(Key.of(tokens, namespace), pages, priority)
    cache.pool.release(stored.duplicates)
    return pages


def hit(cache: RadixCache, tokens, namespace=DEFAULT) -> int:
    """How many tokens are cached, without leaving a trace."""
    return cache.probe(Key.of(list(tokens), namespace)).length


@contextmanager
def refused(code: str, *words: str):
    """The block raises a fault of this code whose text has these words."""
    with pytest.raises(KgenError) as caught:
        yield
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code, str(diagnostic)
    assert all(word in str(diagnostic) for word in words), str(diagnostic)


def nodes(cache: RadixCache) -> list[tuple[list[int], list[int], int]]:
    """Tokens, pages and locks of each node, parents before children."""
    found = []
    pending = [child for root in cache.tree.roots.values() for child in root.children.values()]
    while pending:
        node = pending.pop(0)
        tokens, pages = np.frombuffer(node.key, np.int32), np.frombuffer(node.value, np.int32)
        found.append((tokens.tolist(), pages.tolist(), node.lock_ref))
        pending += node.children.values()
    return found


def match(cache: RadixCache, tokens, limit=None, namespace=DEFAULT):
    return cache.match_prefix(Key.of(list(tokens), namespace), limit)


def text(word: str) -> list[int]:
    return [ord(letter) for letter in word]
