"""What a cache tells whoever follows it, such as a router.

Pages name what is stored, so a follower needs no idea of nodes, and a split is no event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kgen.runtime.keys import Namespace


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """`pages` now hold the KV of `tokens`, after what `after_page` ends (-1: at the start)."""

    namespace: Namespace
    after_page: int
    tokens: tuple[int, ...]
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemovedEvent:
    """`pages` hold nothing any more."""

    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClearedEvent:
    """Nothing is cached any more."""


Event = StoredEvent | RemovedEvent | ClearedEvent
Listener = Callable[[Event], None]
