"""Deriving every count again from the structures, to find where they disagree.

Each function returns or raises all findings at once. Nothing here trusts a counter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from kgen.runtime.errors import broken
from kgen.runtime.node import Node
from kgen.runtime.pages import CACHED, PagePool
from kgen.runtime.tables import Table, pages_for

if TYPE_CHECKING:
    from kgen.runtime.blocks import BlockManager
    from kgen.runtime.radix import RadixCache
    from kgen.runtime.tree import Tree


def check_cache(cache: RadixCache) -> None:
    """Pool, tree and locks; raises K708."""
    if found := [*cache.pool.findings(), *_cache_findings(cache)]:
        raise broken(found)


def check_manager(manager: BlockManager) -> None:
    """Pool, tree, locks, tables and swap space; raises K708."""
    found = [*manager.pool.findings(), *manager.swap.pool.findings()]
    if manager.cache is not None:
        found += _cache_findings(manager.cache)
    for seq_id, table in manager.tables.items():
        found += [f"sequence {seq_id!r}: {text}" for text in _table_findings(manager, table)]
    found += _holder_findings(manager.pool, manager.tables.values(), "device")
    found += _holder_findings(manager.swap.pool, manager.swap.tables.values(), "host")
    if found:
        raise broken(found)


def nodes_of(tree: Tree) -> Iterator[Node]:
    """Every node but the roots, parents first."""
    pending = [child for root in tree.roots.values() for child in root.children.values()]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.children.values())


def _cache_findings(cache: RadixCache) -> list[str]:
    tree = cache.tree
    nodes = list(nodes_of(tree))
    found = [text for node in nodes for text in _node_findings(tree, node)]
    found += [f"root of {space}: {text}" for space, root in tree.roots.items() for text in _root(root, space)]
    found += _lock_findings(nodes, cache.locks)
    leaves = {node.number for node in nodes if node.lock_ref == 0 and not node.children}
    if leaves != {entry[1] for entry in tree.leaves} or len(leaves) != len(tree.leaves):
        found.append("the evictable leaves are not those listed")
    entries = list(tree.leaves)
    if entries != sorted(entries, key=lambda entry: entry[:2]):
        found.append("the evictable leaves are out of order")
    if tree.evictable_pages != sum(node.num_pages for node in nodes if node.lock_ref == 0):
        found.append("the count of evictable pages is wrong")
    pages = np.concatenate([np.frombuffer(node.value, np.int32) for node in nodes] or [np.empty(0, np.int32)])
    if len(np.unique(pages)) != len(pages):
        found.append("a page is in the tree twice")
    if len(pages) != cache.pool.num_cached or np.count_nonzero(cache.pool.ref_counts[pages] != CACHED):
        found.append("the pages of the tree are not the cached ones")
    return found


def _node_findings(tree: Tree, node: Node) -> Iterator[str]:
    label = tree.page_size * 4
    parent = node.parent
    if parent is None or parent.children.get(node.key[:label]) is not node:
        yield f"node {node.number} is not where its parent looks for it"
        return
    if not node.key or len(node.key) % label or len(node.key) // label != node.num_pages:
        yield f"node {node.number} has {len(node.key)} bytes of key for {node.num_pages} pages"
    if node.lock_ref > parent.lock_ref and not parent.is_root:
        yield f"node {node.number} is locked {node.lock_ref} times, its parent {parent.lock_ref}"
    if node.entry is not None and node.entry[0] != tree.policy.rank(node):
        yield f"node {node.number} is listed under an old rank"


def _root(root: Node, namespace: object) -> Iterator[str]:
    if root.lock_ref != 1 or root.parent is not None or root.key or root.value:
        yield "it is no root"
    if root.namespace != namespace or not root.children:
        yield "it is empty or of another namespace"


def _lock_findings(nodes: list[Node], locks: Mapping[int, Node]) -> list[str]:
    expected: Counter[int] = Counter()
    for node in locks.values():
        at: Node | None = node
        while at is not None and not at.is_root:
            expected[at.number] += 1
            at = at.parent
    found = [
        f"node {node.number} counts {node.lock_ref} locks and has {expected[node.number]}"
        for node in nodes
        if node.lock_ref != expected[node.number]
    ]
    known = {node.number for node in nodes}
    return found + [
        f"a lock is on node {number}, which is gone" for number in expected if number not in known
    ]


def _table_findings(manager: BlockManager, table: Table) -> Iterator[str]:
    if table.num_pages != pages_for(table.length, manager.block_size):
        yield f"{table.num_pages} pages for {table.length} tokens"
    if manager.cache is None:
        return
    if table.lock is None or table.lock.serial not in manager.cache.locks:
        yield "its lock is gone"
        return
    path: list[bytes] = []
    at: Node | None = manager.cache.locks[table.lock.serial]
    while at is not None:
        path.append(at.value)
        at = at.parent
    if b"".join(reversed(path)) != table.pages[: table.num_locked].tobytes():
        yield "its first pages are not those of its locked prefix"


def _holder_findings(pool: PagePool, tables: Iterable[Table], where: str) -> list[str]:
    holders = np.zeros(pool.num_pages, np.int32)
    for table in tables:
        np.add.at(holders, table.own, 1)
    wrong = np.flatnonzero(holders != np.maximum(pool.ref_counts, 0))
    return [
        f"{where} page {page} counts {pool.ref_counts[page]} holders and has {holders[page]}"
        for page in wrong.tolist()
    ]
