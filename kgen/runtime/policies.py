"""Which leaf of the radix tree goes first: the one of the smallest rank, then of the smallest number.

A policy is any object with a name and a rank. Ranks count operations, never seconds, so that replaying a
log of operations evicts the same leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kgen.diagnostics import choice_hint
from kgen.runtime.errors import fault
from kgen.runtime.node import Node


class Policy(Protocol):
    """An order of eviction. Ranks of one policy compare with each other."""

    name: str

    def rank(self, node: Node) -> Any:
        """What sorts a leaf; smaller goes first. Must not read a clock or an address."""


class Lru:
    """The leaf whose last use is longest ago."""

    name = "lru"

    def rank(self, node: Node) -> int:
        return node.tick


class Lfu:
    """The leaf that was hit least often, of these the one not used for longest."""

    name = "lfu"

    def rank(self, node: Node) -> tuple[int, int]:
        return node.hit_count, node.tick


class Fifo:
    """The leaf that was stored first."""

    name = "fifo"

    def rank(self, node: Node) -> int:
        return node.created


class Priority:
    """The leaf of the lowest priority, of these the one not used for longest."""

    name = "priority"

    def rank(self, node: Node) -> tuple[int, int]:
        return node.priority, node.tick


POLICIES: Mapping[str, Policy] = {policy.name: policy for policy in (Lru(), Lfu(), Fifo(), Priority())}


def policy_of(choice: str | Policy) -> Policy:
    """A policy by name, or the given one; raises K701 for a name that means nothing."""
    if not isinstance(choice, str):
        return choice
    if choice not in POLICIES:
        raise fault("K701", f"no eviction policy is named '{choice}'", choice_hint(choice, [*POLICIES]))
    return POLICIES[choice]
