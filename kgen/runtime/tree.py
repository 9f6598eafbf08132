"""The structure of the radix tree: finding, splitting, growing, protecting and evicting nodes.

`RadixCache` decides when; here nothing is checked twice and nothing recurses.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from kgen.runtime.events import Listener, RemovedEvent, StoredEvent
from kgen.runtime.keys import DEFAULT, TOKEN_BYTES, Namespace, tokens_of
from kgen.runtime.node import PAGE_BYTES, Node
from kgen.runtime.order import SortedEntries
from kgen.runtime.pages import PagePool, Pages
from kgen.runtime.policies import Policy
from kgen.runtime.results import Stored
from kgen.runtime.stats import Counts

_NO_PAGES: Pages = np.empty(0, np.int32)


class Tree:
    """Nodes by namespace, the evictable leaves in the order of their policy, and totals in pages."""

    def __init__(self, pool: PagePool, page_size: int, policy: Policy, on_event: Listener | None) -> None:
        self.pool = pool
        self.page_size = page_size
        self.policy = policy
        self.on_event = on_event
        self.roots: dict[Namespace, Node] = {}
        self.leaves: SortedEntries[tuple[Any, int, Node]] = SortedEntries()
        self.evictable_pages = 0
        self.counts = Counts()
        self._label = page_size * TOKEN_BYTES  # a child is known by its first page of tokens
        self._ticks = 0
        self._numbers = 0

    def root(self, namespace: Namespace | None) -> Node:
        """The root of a namespace; a new one, which counts from its first child on, when there is none. Its
        lock_ref is always 1."""
        namespace = namespace or DEFAULT
        root = self.roots.get(namespace)
        if root is None:
            root = Node(0, None, b"", b"")
            root.namespace = namespace
            root.lock_ref = 1
        return root

    def walk(self, node: Node, data: bytes, pos: int, end: int) -> tuple[list[Node], int, Node | None]:
        """Follow data[pos:end] down from `node`, byte positions at page boundaries. Returns the nodes that
        match whole, the position reached, and the child that matches in part, if one does."""
        path: list[Node] = []
        label, starts = self._label, data.startswith
        while pos < end:
            child = node.children.get(data[pos : pos + label])
            if child is None:
                break
            if not starts(child.key, pos, end):
                return path, pos, child
            path.append(child)
            pos += len(child.key)
            node = child
        return path, pos, None

    def common(self, child: Node, data: bytes, pos: int, end: int) -> int:
        """Bytes, in whole pages, that the key of `child` and data[pos:end] begin with alike."""
        count = min(len(child.key), end - pos) // TOKEN_BYTES
        own = np.frombuffer(child.key, np.int32, count)
        differ = own != np.frombuffer(data, np.int32, count, pos)
        at = int(differ.argmax())
        if not differ[at]:
            at = count
        return (at - at % self.page_size) * TOKEN_BYTES

    def split(self, child: Node, at: int) -> Node:
        """Split `child` after `at` bytes of its key; returns the new upper half."""
        self.counts.splits += 1
        self._numbers += 1
        parent: Node = child.parent  # type: ignore[assignment]
        return child.cut(self._numbers, parent, at, at // self._label * PAGE_BYTES, self._label)

    def touch(self, node: Node, hit: int) -> None:
        """Note a use of the path that ends here."""
        self._ticks += 1
        node.tick = self._ticks
        node.hit_count += hit
        if node.entry is not None:
            self._unlist(node)
            self._list(node)

    def protect(self, node: Node, top: Node | None) -> None:
        """One lock more on `node` and all above it, up to but without `top`, which has it already."""
        if node.entry is not None:
            self._unlist(node)
        covered = 0
        while node is not top and node.parent is not None:
            if node.lock_ref == 0:
                covered += len(node.value)
            node.lock_ref += 1
            node = node.parent
        self.evictable_pages -= covered // PAGE_BYTES

    def unprotect(self, node: Node) -> None:
        """One lock less on `node` and all above it."""
        leaf, bared = node, 0
        while node.parent is not None:
            node.lock_ref -= 1
            if node.lock_ref == 0:
                bared += len(node.value)
            node = node.parent
        self.evictable_pages += bared // PAGE_BYTES
        if leaf.lock_ref == 0 and not leaf.children:
            self._list(leaf)

    def grow(self, node: Node, data: bytes, pages: Pages, priority: int) -> tuple[Node, Stored]:
        """Add `data` below `node`, taking over the pages of what is new. Returns where it ends."""
        path, pos, child = self.walk(node, data, 0, len(data))
        inside = self.common(child, data, pos, len(data)) if child is not None else 0
        pos += inside
        known = pos // self._label
        self.pool.adopt(pages[known:])
        if child is not None:
            path.append(self.split(child, inside))
        existing = duplicates = _NO_PAGES
        if known:
            existing = np.frombuffer(b"".join([step.value for step in path]), np.int32)
            duplicates = pages[:known]
            if duplicates.tobytes() != existing.tobytes():
                duplicates = duplicates[duplicates != existing]
            else:
                duplicates = _NO_PAGES
            self.counts.duplicate_pages += len(duplicates)
            node = path[-1]
        if known < len(pages):
            node = self._attach(node, data[pos:], pages[known:])
        node.priority = max(node.priority, priority)
        if not node.is_root:
            self.touch(node, hit=0)
        return node, Stored(existing, duplicates, (len(pages) - known) * self.page_size)

    def evict(self, num_pages: int) -> int:
        """Remove leaves, smallest rank first, until `num_pages` are free; returns how many were freed."""
        freed = 0
        while freed < num_pages and self.leaves:
            node = self.leaves.pop_first()[2]
            node.entry = None
            freed += self._detach(node)
        self.counts.evicted_pages += freed
        self.evictable_pages -= freed
        return freed

    def clear(self) -> None:
        """Forget every node; none may be locked."""
        self.evict(self.evictable_pages)

    def _attach(self, parent: Node, key: bytes, pages: Pages) -> Node:
        self._numbers += 1
        leaf = Node(self._numbers, parent, key, pages.tobytes())
        leaf.created = self._ticks
        if self.on_event is not None:
            self._tell_stored(leaf)
        if parent.entry is not None:
            self._unlist(parent)
        parent.children[key[: self._label]] = leaf
        if parent.namespace is not None:
            self.roots[parent.namespace] = parent
        self.counts.stored_pages += len(pages)
        self.evictable_pages += len(pages)
        self._list(leaf)
        return leaf

    def _detach(self, node: Node) -> int:
        pages = np.frombuffer(node.value, np.int32)
        self.pool.drop(pages)
        if self.on_event is not None:
            self.on_event(RemovedEvent(tuple(pages.tolist())))
        parent: Node = node.parent  # type: ignore[assignment]
        node.parent = None
        del parent.children[node.key[: self._label]]
        self.counts.evicted_leaves += 1
        if parent.is_root:
            if not parent.children:
                del self.roots[parent.namespace]  # type: ignore[arg-type]
        else:
            parent.absorb(node)
            if not parent.children and parent.lock_ref == 0:
                self._list(parent)
        return len(pages)

    def _list(self, leaf: Node) -> None:
        leaf.entry = (self.policy.rank(leaf), leaf.number, leaf)
        self.leaves.add(leaf.entry)

    def _unlist(self, leaf: Node) -> None:
        self.leaves.remove(leaf.entry)  # type: ignore[arg-type]
        leaf.entry = None

    def _tell_stored(self, leaf: Node) -> None:
        above: Node = leaf.parent  # type: ignore[assignment]
        after = int.from_bytes(above.value[-PAGE_BYTES:], sys.byteorder) if above.value else -1
        while above.parent is not None:
            above = above.parent
        tokens, pages = tokens_of(leaf.key).tolist(), np.frombuffer(leaf.value, np.int32).tolist()
        namespace = above.namespace or DEFAULT
        self.on_event(StoredEvent(namespace, after, tuple(tokens), tuple(pages)))  # type: ignore[misc]
