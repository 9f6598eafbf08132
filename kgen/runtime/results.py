"""What the radix cache answers with. All of it is immutable; `node` and `owner` are the cache's own."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgen.runtime.node import Node
from kgen.runtime.pages import Pages


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The longest cached prefix of a key: tokens, and its pages in order (int32, read-only).

    The pages are safe to use only under a lock on the match.
    """

    length: int
    pages: Pages
    node: Node = field(repr=False)
    owner: object = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """What a match would find now, had it been made. Nothing was touched."""

    length: int
    node: Node = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Lock:
    """Keeps a prefix of `length` tokens from eviction until it is released, once. Serials never repeat."""

    serial: int
    length: int
    owner: object = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """What became of pages offered to the tree.

    `existing`: the tree's pages for the tokens it already had, which come first; the caller's table must
    use these. `duplicates`: the caller's own pages for them, still the caller's, to be released.
    `stored`: tokens that are new to the tree, whose pages it owns now.
    """

    existing: Pages
    duplicates: Pages
    stored: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """Tokens and leaves that one eviction removed."""

    tokens: int
    leaves: int
