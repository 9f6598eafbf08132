"""The names an operator defines: one scope, no name twice, and slips of the pen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgen.diagnostics import Collector, Span, nearest
from kgen.spec.arguments import axis_facts
from kgen.spec.model import ArgumentSpec, FactSpec
from kgen.spec.scope import OPEN, Scope, Symbol
from kgen.spec.types import BAD, INT, Type, article
from kgen.syntax.ast import Name, walk


def check_unique(names: Iterable[tuple[str, str, Span]], found: Collector) -> None:
    """Names share one scope: (name, role, place) of each, told where two are alike."""
    first: dict[str, tuple[str, Span]] = {}
    for name, role, span in names:
        if name in first:
            message = f"'{name}' is already the name of {article(first[name][0])}"
            found.add("K215", message, span, f"rename this {role}", (f"first given at {first[name][1]}",))
        else:
            first[name] = (role, span)


def call_scope(
    scope: Scope, arguments: Sequence[ArgumentSpec], facts: Sequence[FactSpec], found: Collector
) -> dict[str, Symbol]:
    """What is known when an operator is called: beside `scope` also scalars, shapes and facts."""
    call = dict(scope)
    call.update({a.name: Symbol(Type(a.kind), "argument") for a in arguments if a.kind in ("int", "float")})
    call.update({a.name: Symbol(BAD, "argument") for a in arguments if not a.kind})
    derived = {fact.name for fact in facts}
    for name, place in axis_facts(arguments, [*call, *derived]).items():
        if place is not None:
            _check_misspelt(name, place, arguments, scope, found)
        call[name] = Symbol(INT, "shape")
    call.update({name: Symbol(INT, "fact") for name in derived})
    return call


def _check_misspelt(
    name: str, place: Name, arguments: Sequence[ArgumentSpec], scope: Scope, found: Collector
) -> None:
    """A shape that only one axis names, two letters from a parameter's name, is a slip."""
    sizes = [axis.size for argument in arguments for axis in argument.axes]
    uses = sum(isinstance(node, Name) and node.name == name for size in sizes for node in walk(size))
    close = nearest(name, [known for known in scope if known not in ("target", OPEN)])
    if uses == 1 and close is not None and distance(name, close) <= 2:
        hint = f"did you mean '{close}'? (a new shape needs a name that is not so close)"
        found.add("K205", f"unknown name '{name}'", place.span, hint)


def distance(left: str, right: str) -> int:
    """How many single-letter edits (insert, delete, replace, swap of neighbours) part two words."""
    rows = [list(range(len(right) + 1))]
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            cost = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]
