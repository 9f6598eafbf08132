"""What the names of a spec's expressions mean for one combination of parameters."""

from __future__ import annotations

from collections.abc import Mapping

from kgen.diagnostics import KgenError, Span
from kgen.manifest import Scalar
from kgen.spec.evaluate import Lets, given_names
from kgen.spec.model import OpSpec, TargetSpec
from kgen.syntax.ast import Attr, Expr, Name, walk


class Scope(Lets):
    """Parameters, the fields of the target and of the layout, and the op's derived values.

    A derived value is computed when it is first asked for, so that a rule can refuse a
    combination before something that makes no sense for it is computed. Where parameters or the
    target are left out, what needs them has no value (K205).
    """

    def __init__(self, op: OpSpec, params: Mapping[str, Scalar], target: TargetSpec | None) -> None:
        super().__init__(given_names(op, params, target), op.lets)

    def lets(self) -> Mapping[str, Scalar]:
        """Every derived value. Raises KgenError where one has none."""
        return {name: self[name] for name in self._lets}

    def figures(self, expr: Expr) -> Mapping[str, Scalar]:
        """The values of the names an expression uses, as far as they have one."""
        found: dict[str, Scalar] = {}
        for name in filter(self.__contains__, dotted_names(expr)):
            try:
                found[name] = self[name]
            except KgenError:
                continue
        return found


def dotted_names(expr: Expr) -> tuple[str, ...]:
    """The names an expression uses, each once, left to right; of `target.wave` the whole."""
    nodes = [node for node in walk(expr) if isinstance(node, Name | Attr)]
    return tuple(dict.fromkeys(n.dotted if isinstance(n, Attr) else n.name for n in nodes))


def text_of(span: Span) -> str:
    """The text a span covers, on one line."""
    if span.line == span.end_line:
        return span.source.line(span.line)[span.col - 1 : span.end_col - 1]
    first = span.source.line(span.line)[span.col - 1 :]
    middle = [span.source.line(n) for n in range(span.line + 1, span.end_line)]
    last = span.source.line(span.end_line)[: span.end_col - 1]
    return " ".join(part.strip() for part in (first, *middle, last))
