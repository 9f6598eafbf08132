"""Definitions that name each other: their order, and their circles."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from kgen.diagnostics import Collector, Span
from kgen.syntax.ast import Expr, names_of

MOST_TOLD = 8
"""Names of a circle that a message lists."""


class Definition(Protocol):
    """Something of a name, an expression and a place."""

    @property
    def name(self) -> str: ...
    @property
    def expr(self) -> Expr: ...
    @property
    def span(self) -> Span: ...


D = TypeVar("D", bound=Definition)


def in_order(definitions: Sequence[D], what: str, found: Collector) -> tuple[D, ...]:
    """Each definition after those it names, otherwise as in the file. Circles are reported,
    one diagnostic each, and left out."""
    place = {each.name: at for at, each in enumerate(definitions)}
    needs = [sorted(names_of(each.expr) & place.keys()) for each in definitions]
    users: list[list[int]] = [[] for _ in definitions]
    for at, names in enumerate(needs):
        for name in names:
            users[place[name]].append(at)
    waits_for = [len(names) for names in needs]
    ready = [at for at, count in enumerate(waits_for) if not count]
    placed: dict[int, D] = {}
    while ready:
        at = heapq.heappop(ready)
        placed[at] = definitions[at]
        for user in users[at]:
            waits_for[user] -= 1
            if not waits_for[user]:
                heapq.heappush(ready, user)
    stuck = {each.name: each for at, each in enumerate(definitions) if at not in placed}
    _report_circles(stuck, {name: needs[place[name]] for name in stuck}, what, found)
    return tuple(placed.values())


def _report_circles(
    stuck: Mapping[str, Definition], needs: Mapping[str, Sequence[str]], what: str, found: Collector
) -> None:
    follows = {name: next(need for need in needs[name] if need in stuck) for name in stuck}
    left = _circular(follows)
    for name, each in stuck.items():
        if name in left:
            circle = _circle(name, follows)
            left -= set(circle)
            hint = "one of them must not need the others"
            found.add("K212", f"circular {what}: {_told([*circle, name])}", each.span, hint)


def _circular(follows: Mapping[str, str]) -> set[str]:
    """The names that lie on circles, where each is followed by one other."""
    circular: set[str] = set()
    gone: dict[str, str] = {}
    for start in follows:
        name = start
        while name not in gone:
            gone[name] = start
            name = follows[name]
        if gone[name] == start:
            circular |= set(_circle(name, follows))
    return circular


def _circle(name: str, follows: Mapping[str, str]) -> list[str]:
    circle = [name]
    while follows[circle[-1]] != name:
        circle.append(follows[circle[-1]])
    return circle


def _told(circle: Sequence[str]) -> str:
    if len(circle) <= MOST_TOLD + 1:
        return " -> ".join(circle)
    return " -> ".join([*circle[:MOST_TOLD], "...", circle[-1]]) + f" ({len(circle) - 1} names)"
