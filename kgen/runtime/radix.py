"""The radix cache: which prefixes of earlier requests still have their KV in memory.

A node holds a run of tokens and their pages; a path from the root spells a prefix. A prefix is matched, then
locked; what was computed after it is added below the lock, and the lock moves along. Only leaves that no lock
protects are evicted, and a parent whose last child went becomes a leaf in the same call. With
page_size > 1 prefixes end at page boundaries.
"""

from __future__ import annotations

import itertools
import time

import numpy as np

from kgen.runtime.checks import check_after
from kgen.runtime.clock import Clock
from kgen.runtime.draw import draw
from kgen.runtime.errors import fault, whole
from kgen.runtime.events import ClearedEvent, Listener
from kgen.runtime.keys import DEFAULT, TOKEN_BYTES, Key, Namespace
from kgen.runtime.node import Node
from kgen.runtime.pages import PagePool, Pages
from kgen.runtime.pins import Pins
from kgen.runtime.policies import Policy, policy_of
from kgen.runtime.results import Evicted, Lock, Match, Probe, Stored
from kgen.runtime.stats import Stats
from kgen.runtime.tree import Tree

_CHANGES = ("match_prefix", "lock", "unlock", "pin", "insert", "extend", "evict", "reclaim", "clear")


class RadixCache:
    """A radix tree over the cached pages of `pool`, and the locks on it.

    `clock` only serves pins. `on_event` hears of what is stored and removed. `check`: verify everything after
    every operation (None: as KGEN_CHECK says).
    """

    def __init__(
        self,
        pool: PagePool,
        page_size: int = 1,
        policy: str | Policy = "lru",
        *,
        clock: Clock = time.monotonic,
        on_event: Listener | None = None,
        check: bool | None = None,
    ) -> None:
        if pool.reclaimer is not None:
            raise fault("K701", "this pool already has a radix cache")
        self.page_size = whole("page_size", page_size, 1)
        self.pool = pool
        self.tree = Tree(pool, self.page_size, policy_of(policy), on_event)
        self.pins = Pins(clock)
        self._page_bytes = self.page_size * TOKEN_BYTES
        self.locks: dict[int, Node] = {}
        self._serials = itertools.count()
        pool.reclaimer = self
        check_after(self, _CHANGES, check)

    def match_prefix(self, key: Key, limit: int | None = None) -> Match:
        """The longest cached prefix of `key`, of its first `limit` tokens if given.

        Where it ends inside a node, the node is split there. Counts as a use of the prefix.
        """
        end = self._end(key, limit)
        tree = self.tree
        root = tree.root(key.namespace)
        path, pos, child = tree.walk(root, key.data, 0, end)
        if child is not None:
            upper = tree.split(child, tree.common(child, key.data, pos, end))
            path.append(upper)
            pos += len(upper.key)
        counts = tree.counts
        counts.queries += 1
        counts.query_bytes += len(key.data)
        node = root
        if pos:
            node = path[-1]
            counts.hits += 1
            counts.hit_bytes += pos
            tree.touch(node, hit=1)
        return Match(pos // TOKEN_BYTES, _pages(path), node, self)

    def probe(self, key: Key, limit: int | None = None) -> Probe:
        """How long a match would be and where it would end. Neither splits nor counts as a use."""
        end = self._end(key, limit)
        tree = self.tree
        root = tree.root(key.namespace)
        path, pos, child = tree.walk(root, key.data, 0, end)
        if child is not None:
            pos += tree.common(child, key.data, pos, end)
        return Probe(pos // TOKEN_BYTES, child or (path[-1] if path else root))

    def lock(self, match: Match) -> Lock:
        """Protect a matched prefix, the node where it ends and all above it. Raises K704 when the match is
        another cache's, or was evicted since."""
        if match.owner is not self:
            raise fault("K704", "this match is of another cache")
        if match.node.is_evicted:
            raise fault("K704", "the matched prefix was evicted; match it again before locking it")
        self.tree.protect(match.node, None)
        return self._issue(match.node, match.length)

    def unlock(self, lock: Lock) -> None:
        """Release a lock. Raises K704 for one released before, or of another cache."""
        node = self._node_of(lock)
        del self.locks[lock.serial]
        self.tree.unprotect(node)

    def lock_root(self, namespace: Namespace = DEFAULT) -> Lock:
        """A lock on the empty prefix of a namespace: it protects nothing, and can be extended."""
        return self._issue(self.tree.root(namespace), 0)

    def relock(self, lock: Lock) -> Lock:
        """A second lock on the same prefix, as a fork needs."""
        node = self._node_of(lock)
        self.tree.protect(node, None)
        return self._issue(node, lock.length)

    def pin(self, match: Match, seconds: float) -> Lock:
        """A lock that releases itself after `seconds`, unless `unlock` comes first."""
        if not seconds >= 0:
            raise fault("K701", f"a pin holds for {seconds} seconds, expected at least 0")
        lock = self.lock(match)
        self.pins.add(lock, seconds)
        return lock

    def insert(self, key: Key, pages: Pages, priority: int = 0) -> Stored:
        """Store a prefix whose KV is written. `pages` [len(key) / page_size] int32, each either held by the
        caller alone or, where the tree has the tokens already, the tree's own.

        Raises K701 when pages and tokens do not fit together, K703 when a page is not the caller's.
        """
        self._check_sizes(key.data, pages)
        _, stored = self.tree.grow(self.tree.root(key.namespace), key.data, pages, priority)
        return stored

    def extend(self, lock: Lock, data: bytes, pages: Pages, priority: int = 0) -> tuple[Lock, Stored]:
        """Store what follows a locked prefix and move the lock to where it ends; `lock` is released by it.

        `data`: int32 bytes of the tokens after the prefix (`token_bytes`); `pages` as in `insert`.
        """
        top = self._node_of(lock)
        self._check_sizes(data, pages)
        if top.is_root:
            top = self.tree.root(top.namespace)
        node, stored = self.tree.grow(top, data, pages, priority)
        self.tree.protect(node, top)
        del self.locks[lock.serial]
        return self._issue(node, lock.length + len(data) // TOKEN_BYTES), stored

    def evict(self, num_tokens: int) -> Evicted:
        """Remove whole leaves until `num_tokens` are freed or nothing is evictable."""
        before = self.tree.counts.evicted_leaves
        freed = self.reclaim(-(-whole("num_tokens", num_tokens) // self.page_size))
        return Evicted(freed * self.page_size, self.tree.counts.evicted_leaves - before)

    def reclaim(self, num_pages: int) -> int:
        """`evict`, counted in pages; returns the pages freed."""
        self._expire_pins()
        return self.tree.evict(whole("num_pages", num_pages))

    def clear(self) -> None:
        """Remove everything. Raises K704 while any lock is held."""
        self._expire_pins()
        if self.locks:
            raise fault("K704", f"{len(self.locks)} locks are held; release them before clearing the cache")
        self.tree.clear()
        if self.tree.on_event is not None:
            self.tree.on_event(ClearedEvent())

    @property
    def evictable_pages(self) -> int:
        """Pages no lock protects; all of them can be evicted."""
        self._expire_pins()
        return self.tree.evictable_pages

    def unprotected_pages(self, match: Match | Probe) -> int:
        """Pages that stop being evictable when a match is locked; of a probe, at most so many."""
        self._expire_pins()
        node, found = match.node, 0
        while node.parent is not None and node.lock_ref == 0:
            found += node.num_pages
            node = node.parent
        return found

    @property
    def evictable_size(self) -> int:
        """Tokens no lock protects."""
        return self.evictable_pages * self.page_size

    @property
    def protected_size(self) -> int:
        """Tokens that a lock protects."""
        return (self.pool.num_cached - self.evictable_pages) * self.page_size

    @property
    def stats(self) -> Stats:
        """Totals so far."""
        return self.tree.counts.snapshot(self.page_size)

    def draw(self) -> str:
        """The tree as text, a line a node."""
        return draw(self.tree)

    def check_integrity(self) -> None:
        """Derive every count again from the structures; raises K708 with all that disagrees."""
        from kgen.runtime.integrity import check_cache

        check_cache(self)

    def _end(self, key: Key, limit: int | None) -> int:
        """Bytes of the key that may match: whole pages of the first `limit` tokens."""
        end = len(key.data)
        if limit is not None and limit * TOKEN_BYTES < end:
            end = whole("limit", limit) * TOKEN_BYTES
        return end - end % self._page_bytes

    def _check_sizes(self, data: bytes, pages: Pages) -> None:
        if len(data) != len(pages) * self._page_bytes:
            tokens, size = len(data) / TOKEN_BYTES, self.page_size
            message = f"{tokens:g} tokens do not fill {len(pages)} pages of {size}"
            raise fault("K701", message, hint="store whole pages only")

    def _issue(self, node: Node, length: int) -> Lock:
        serial = next(self._serials)
        self.locks[serial] = node
        return Lock(serial, length, self)

    def _node_of(self, lock: Lock) -> Node:
        if lock.owner is not self:
            raise fault("K704", "this lock is of another cache")
        node = self.locks.get(lock.serial)
        if node is None:
            raise fault("K704", "this lock was released already", hint="each lock is released once")
        return node

    def _expire_pins(self) -> None:
        if self.pins:
            for lock in self.pins.due():
                if lock.serial in self.locks:
                    self.unlock(lock)


def _pages(path: list[Node]) -> Pages:
    if len(path) == 1:
        return np.frombuffer(path[0].value, np.int32)
    return np.frombuffer(b"".join([node.value for node in path]), np.int32)
