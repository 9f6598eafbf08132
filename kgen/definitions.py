"""Definitions that name each other: what a name comes down to, and values that are computed once each.

The cost follows the number of definitions and of the names in them, never that of paths between them; and
nothing here nests with the length of such a path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kgen.diagnostics import Diagnostic, KgenError


def needed(names: Iterable[str], needs: Callable[[str], Iterable[str]]) -> list[str]:
    """`names` and all that they need, through others too: each once, and after what it needs itself, but
    for names in a circle. `needs` says what a name needs at once."""
    order: list[str] = []
    seen: set[str] = set()
    path: list[tuple[str, Iterator[str]]] = [("", iter(names))]
    while path:
        name, rest = path[-1]
        for following in rest:
            if following not in seen:
                seen.add(following)
                path.append((following, iter(needs(following))))
                break
        else:
            path.pop()
            if path:
                order.append(name)
    return order


class Derived(Mapping[str, Any], ABC):
    """Values by name: those that are known, and those of definitions, computed when they are first asked for.

    A definition without a value is a fault only for who asks for it; then, and each time after, the error
    that its computation ended in is raised.
    """

    def __init__(self, known: Mapping[str, Any], definitions: Mapping[str, Any]) -> None:
        self._known: dict[str, Any] = dict(known)
        self._definitions = definitions
        self._begun: set[str] = set()

    @abstractmethod
    def _needs(self, name: str) -> Iterable[str]:
        """The names that a definition uses."""

    @abstractmethod
    def _compute(self, name: str) -> Any:
        """The value of a definition, from `self`. Raises KgenError where it has none."""

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._settle(name)
        value = self._known[name]
        if isinstance(value, KgenError):
            raise value
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._definitions

    def __iter__(self) -> Iterator[str]:
        return iter({**self._known, **self._definitions})

    def __len__(self) -> int:
        return len({**self._known, **self._definitions})

    def _settle(self, name: str) -> None:
        """Compute a definition, after what it needs."""
        if name not in self._definitions:
            raise KeyError(name)
        for each in needed([name], self._unknown) if self._unknown(name) else (name,):
            if each in self._begun:
                raise KgenError(Diagnostic("K212", f"'{each}' is made of itself"))
            self._begun.add(each)
            try:
                self._known[each] = self._compute(each)
            except KgenError as error:
                self._known[each] = error

    def _unknown(self, name: str) -> list[str]:
        known, definitions = self._known, self._definitions
        return [other for other in self._needs(name) if other not in known and other in definitions]
