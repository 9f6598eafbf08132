"""A node of the radix tree.

A match counts for every node on its path, but is written down only where it ends. What happened below a node
reaches it when its last child leaves, through `absorb`; nothing looks at these fields before that, since
only leaves are ranked for eviction. So a match costs the same however deep it goes.
"""

from __future__ import annotations

from typing import Any

from kgen.runtime.keys import Namespace

PAGE_BYTES = 4  # a page id in `value`


class Node:
    """A run of tokens and the pages that hold their KV, both as bytes of int32.

    `lock_ref` counts the locks at or below this node. `number` is unique and grows with creation; `created`
    and `tick` say when it was stored and last used, counted in operations. `settled`: the hits its parent
    knows of already. `entry`: its place among the evictable leaves, if it is one. `namespace`: a root's.
    """

    __slots__ = (
        "children",
        "created",
        "entry",
        "hit_count",
        "key",
        "lock_ref",
        "namespace",
        "number",
        "parent",
        "priority",
        "settled",
        "tick",
        "value",
    )

    def __init__(self, number: int, parent: Node | None, key: bytes, value: bytes) -> None:
        self.number = number
        self.parent = parent
        self.key = key
        self.value = value
        self.children: dict[bytes, Node] = {}
        self.lock_ref = 0
        self.hit_count = 0
        self.settled = 0
        self.priority = 0
        self.created = 0
        self.tick = 0
        self.entry: tuple[Any, int, Node] | None = None
        self.namespace: Namespace | None = None

    @property
    def num_pages(self) -> int:
        return len(self.value) // PAGE_BYTES

    @property
    def is_root(self) -> bool:
        return self.namespace is not None

    @property
    def is_evicted(self) -> bool:
        return self.parent is None and self.namespace is None

    def absorb(self, child: Node) -> None:
        """Learn what happened at a child that leaves."""
        self.tick = max(self.tick, child.tick)
        self.priority = max(self.priority, child.priority)
        self.hit_count += child.hit_count - child.settled

    def cut(self, number: int, parent: Node, at: int, value_at: int, label: int) -> Node:
        """Put a new node with the first `at` bytes of the key between this node and its parent.

        It inherits locks, hits, priority and age; this node keeps the rest. `label`: bytes of a key that
        name a child.
        """
        upper = Node(number, parent, self.key[:at], self.value[:value_at])
        upper.lock_ref, upper.hit_count, upper.settled = self.lock_ref, self.hit_count, self.settled
        upper.priority, upper.created, upper.tick = self.priority, self.created, self.tick
        parent.children[upper.key[:label]] = upper
        self.settled = self.hit_count
        self.key, self.value, self.parent = self.key[at:], self.value[value_at:], upper
        upper.children[self.key[:label]] = self
        return upper


def hits_through(node: Node) -> int:
    """How many matches ended at this node or below it."""
    total = node.hit_count
    pending = list(node.children.values())
    while pending:
        below = pending.pop()
        total += below.hit_count - below.settled
        pending.extend(below.children.values())
    return total
