"""Rules that no value can satisfy, found by trying the values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from kgen.diagnostics import Collector, KgenError
from kgen.layout import Layout, attributes
from kgen.manifest import Scalar
from kgen.semantics import evaluate
from kgen.spec.evaluate import inline
from kgen.spec.model import Let, Param, Require
from kgen.syntax.ast import Expr, names_of, to_code

MAX_TRIALS = 4096


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
    for rule in requires:
        expr = inline(rule.check, tuple(lets))
        names = names_of(expr)
        if names and all(domains.get(name) is not None for name in names):
            spaces = {name: domains[name] or () for name in sorted(names)}
            if can_hold(expr, spaces, layouts) is False:
                listed = " and ".join(f"'{name}'" for name in sorted(names))
                found.add(
                    "K213", f"this rule can never hold: it rejects every value of {listed}", rule.check.span
                )


def can_hold(
    expr: Expr, spaces: Mapping[str, Sequence[Scalar]], layouts: Mapping[str, Layout]
) -> bool | None:
    """Whether some combination of values makes `expr` true; None where there are too many to try."""
    if math.prod(len(values) for values in spaces.values()) > MAX_TRIALS:
        return None
    code = to_code(expr)
    return any(_holds(code, names) for names in _combinations(spaces, layouts))


def _holds(code: list[object], names: Mapping[str, Scalar]) -> bool:
    try:
        return evaluate(code, names) is True
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
