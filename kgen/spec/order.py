"""Definitions that name each other: their order, their circles, and how large they grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from kgen.diagnostics import Collector, Span
from kgen.semantics import MAX_DEPTH
from kgen.syntax.ast import Expr, Name, names_of, walk

MAX_SIZE = 10_000
"""Nodes of an expression once every derived value in it is written out."""


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
    names = {each.name for each in definitions}
    needs = {each.name: sorted(names_of(each.expr) & names) for each in definitions}
    placed: dict[str, D] = {}
    waiting = list(definitions)
    while True:
        ready = [each for each in waiting if all(name in placed for name in needs[each.name])]
        if not ready:
            break
        placed[ready[0].name] = ready[0]
        waiting.remove(ready[0])
    _report_circles(waiting, needs, what, found)
    return tuple(placed.values())


def _report_circles(
    waiting: Sequence[Definition], needs: Mapping[str, Sequence[str]], what: str, found: Collector
) -> None:
    stuck = {each.name for each in waiting}
    told: set[str] = set()
    for each in waiting:
        path = [each.name]
        while path[-1] not in path[:-1]:
            path.append(next(name for name in needs[path[-1]] if name in stuck))
        circle = path[path.index(path[-1]) :]
        if circle[-1] == each.name and not told & set(circle):
            told |= set(circle)
            found.add(
                "K212",
                f"circular {what}: {' -> '.join(circle)}",
                each.span,
                "one of them must not need the others",
            )


class Growth:
    """How large expressions become when the derived values in them are written out."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}

    def define(self, name: str, expr: Expr, found: Collector) -> bool:
        """Measure a derived value whose own names are already defined; whether it is in bounds."""
        fits = self.check(expr, found)
        self._known[name] = self._measure(expr) if fits else (1, 1)
        return fits

    def check(self, expr: Expr, found: Collector) -> bool:
        """Whether an expression stays within bounds; otherwise it is reported."""
        size, depth = self._measure(expr)
        if size <= MAX_SIZE and depth <= MAX_DEPTH:
            return True
        limit = f"{MAX_SIZE} terms" if size > MAX_SIZE else f"{MAX_DEPTH} levels"
        found.add("K111", f"with its derived values written out this exceeds {limit}", expr.span)
        return False

    def _measure(self, expr: Expr) -> tuple[int, int]:
        """Size and depth, written out; the depth may be estimated too large."""
        size, depth = expr.size, expr.depth
        for node in walk(expr):
            if isinstance(node, Name) and node.name in self._known:
                more, deeper = self._known[node.name]
                size, depth = size + more - 1, max(depth, expr.depth + deeper - 1)
        return size, depth
