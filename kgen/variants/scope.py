"""What the names of a spec's expressions mean for one combination of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kgen.diagnostics import KgenError, Span
from kgen.layout import attributes
from kgen.manifest import Scalar
from kgen.spec.evaluate import evaluate_expr, target_fields
from kgen.spec.model import Let, OpSpec, TargetSpec
from kgen.syntax.ast import Attr, Expr, Name, walk


class Scope(Mapping[str, Scalar]):
    """Parameters, the fields of the target and of the layout, and the op's derived values.

    A derived value is computed when it is first asked for, so that a rule can refuse a
    combination before something that makes no sense for it is computed. Where parameters or the
    target are left out, what needs them has no value (K205).
    """

    def __init__(self, op: OpSpec, params: Mapping[str, Scalar], target: TargetSpec | None) -> None:
        self._known: dict[str, Scalar] = dict(params)
        if target is not None:
            self._known["target"] = target.name
            self._add("target", target_fields(target))
        for param in op.params:
            if param.type == "target" and target is not None:
                self._add(param.name, target_fields(target))
            elif param.type == "layout" and params.get(param.name) in op.layouts:
                self._add(param.name, attributes(op.layouts[str(params[param.name])]))
        self._lets: Mapping[str, Let] = {let.name: let for let in op.lets}

    def __getitem__(self, name: str) -> Scalar:
        if name not in self._known:
            self._known[name] = evaluate_expr(self._lets[name].expr, self)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._lets

    def __iter__(self) -> Iterator[str]:
        return iter({**self._known, **self._lets})

    def __len__(self) -> int:
        return len({**self._known, **self._lets})

    def lets(self) -> Mapping[str, Scalar]:
        """Every derived value. Raises KgenError where one has none."""
        return {name: self[name] for name in self._lets}

    def figures(self, expr: Expr) -> Mapping[str, Scalar]:
        """The values of the names an expression uses, as far as they have one."""
        found: dict[str, Scalar] = {}
        for name in dotted_names(expr):
            try:
                found[name] = self[name]
            except KgenError:
                continue
        return found

    def _add(self, base: str, fields: Mapping[str, Scalar]) -> None:
        self._known.update({f"{base}.{name}": value for name, value in fields.items()})


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
