"""Rules that no value can satisfy, found by trying the values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from kgen.definitions import needed
from kgen.diagnostics import Collector, KgenError
from kgen.layout import Layout, attributes
from kgen.manifest import Scalar
from kgen.spec.evaluate import Lets, evaluate_expr, made_of, origins_of
from kgen.spec.model import Let, Param, Require
from kgen.syntax.ast import Expr, names_of

MAX_TRIALS = 4096
"""Combinations of values that are tried for a rule."""
MAX_TERMS = 4_000_000
"""Terms that are computed in all the trials of a file; a rule left over then counts as one that can hold."""


def check_can_hold(
    requires: Sequence[Require],
    params: Sequence[Param],
    lets: Sequence[Let],
    choices: Mapping[str, Sequence[str] | None],
    layouts: Mapping[str, Layout],
    found: Collector,
) -> None:
    """Report each rule that rejects every combination of the values its parameters may have."""
    domains = {param.name: _domain(param, choices) for param in params}
    origins = origins_of(lets)
    groups: dict[frozenset[str], list[Require]] = {}
    for rule in requires:
        names = made_of(rule.check, origins)
        if names and all(domains.get(name) is not None for name in names):
            groups.setdefault(names, []).append(rule)
    trials = _Trials({let.name: let for let in lets}, layouts)
    never: set[int] = set()
    for names, rules in groups.items():
        spaces = {name: domains[name] or () for name in sorted(names)}
        never |= {id(rule) for rule in trials.never_held(rules, spaces)}
    for rule in requires:
        if id(rule) in never:
            listed = " and ".join(f"'{name}'" for name in sorted(made_of(rule.check, origins)))
            message = f"this rule can never hold: it rejects every value of {listed}"
            found.add("K213", message, rule.check.span)


class _Trials:
    """Rules tried on values. Those of the same names are tried together, so that the derived values in them
    are computed once for each combination."""

    def __init__(self, lets: Mapping[str, Let], layouts: Mapping[str, Layout]) -> None:
        self._lets, self._layouts = lets, layouts
        self._left = MAX_TERMS

    def never_held(
        self, rules: Sequence[Require], spaces: Mapping[str, Sequence[Scalar]]
    ) -> Sequence[Require]:
        """The rules that no combination of values makes true; none where there are too many to try."""
        if math.prod(len(values) for values in spaces.values()) > MAX_TRIALS:
            return ()
        left, used = list(rules), self._used(rules)
        terms = sum(let.expr.size for let in used)
        for names in _combinations(spaces, self._layouts):
            self._left -= terms + sum(rule.check.size for rule in left)
            if not left or self._left < 0:
                return ()
            scope = Lets(names, used)
            left = [rule for rule in left if not _holds(rule.check, scope)]
        return left

    def _used(self, rules: Sequence[Require]) -> Sequence[Let]:
        """The derived values that rules are made of, in dependency order."""
        lets = self._lets
        named = [name for rule in rules for name in names_of(rule.check) & lets.keys()]
        return [lets[name] for name in needed(named, lambda name: names_of(lets[name].expr) & lets.keys())]


def _holds(expr: Expr, names: Mapping[str, Scalar]) -> bool:
    try:
        return evaluate_expr(expr, names) is True
    except KgenError:
        return False


def _combinations(
    spaces: Mapping[str, Sequence[Scalar]], layouts: Mapping[str, Layout]
) -> Iterator[dict[str, Scalar]]:
    for values in itertools.product(*spaces.values()):
        names: dict[str, Scalar] = dict(zip(spaces, values, strict=True))
        for name, value in list(names.items()):
            if isinstance(value, str) and value in layouts:
                fields = attributes(layouts[value])
                names.update({f"{name}.{field}": each for field, each in fields.items()})
        yield names


def _domain(param: Param, choices: Mapping[str, Sequence[str] | None]) -> Sequence[Scalar] | None:
    """The values a parameter may have, where they can be listed."""
    if param.values:
        return param.values
    if param.type == "bool":
        return (False, True)
    if param.type == "int":
        bounded = param.minimum is not None and param.maximum is not None
        return range(param.minimum, param.maximum + 1) if bounded else None  # type: ignore[operator, arg-type]
    return None if param.type == "target" else choices.get(param.type)
