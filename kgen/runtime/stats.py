"""What a cache has done since it was made."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.runtime.keys import TOKEN_BYTES


@dataclass(frozen=True, slots=True)
class Stats:
    """Totals. `queries`, `hits`: matches, and those longer than 0. `evicted_leaves` and `splits` count nodes.
    `duplicate_tokens` were computed though the tree had them by the time they were stored."""

    queries: int
    hits: int
    query_tokens: int
    hit_tokens: int
    stored_tokens: int
    duplicate_tokens: int
    evicted_tokens: int
    evicted_leaves: int
    splits: int

    @property
    def hit_rate(self) -> float:
        """Tokens found over tokens asked for; 0 when none were."""
        return self.hit_tokens / self.query_tokens if self.query_tokens else 0.0


@dataclass(slots=True)
class Counts:
    """The running counts behind `Stats`, in the units the cache works in."""

    queries: int = 0
    hits: int = 0
    query_bytes: int = 0
    hit_bytes: int = 0
    stored_pages: int = 0
    duplicate_pages: int = 0
    evicted_pages: int = 0
    evicted_leaves: int = 0
    splits: int = 0

    def snapshot(self, page_size: int) -> Stats:
        """The totals now."""
        return Stats(
            queries=self.queries,
            hits=self.hits,
            query_tokens=self.query_bytes // TOKEN_BYTES,
            hit_tokens=self.hit_bytes // TOKEN_BYTES,
            stored_tokens=self.stored_pages * page_size,
            duplicate_tokens=self.duplicate_pages * page_size,
            evicted_tokens=self.evicted_pages * page_size,
            evicted_leaves=self.evicted_leaves,
            splits=self.splits,
        )
