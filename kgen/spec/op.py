"""specs/ops/*.yaml: an operator, from nodes to the typed model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from kgen.diagnostics import Collector, nearest
from kgen.layout import Layout
from kgen.spec.arguments import check_when, read_argument
from kgen.spec.check import check_expr
from kgen.spec.feasible import check_can_hold
from kgen.spec.kernels import read_grids, read_templates
from kgen.spec.model import ArgumentSpec, FactSpec, Let, OpSpec, Param, Require, SelectSpec, VariantSpec
from kgen.spec.names import call_scope, check_unique
from kgen.spec.order import in_order
from kgen.spec.params import Choices, check_defaults, param_type, read_param, type_choices
from kgen.spec.reader import Fields, check_name, expression
from kgen.spec.scope import OPEN, Scope, Symbol
from kgen.spec.selection import read_select
from kgen.spec.testrows import read_tests
from kgen.spec.types import BAD, BOOL, INT, Type
from kgen.spec.variants import POSITIONS, attach, read_variant
from kgen.syntax.ast import Expr
from kgen.syntax.yaml import MapNode, Node

_REQUIRED = ("op", "doc", "templates", "params", "arguments")
_DEFINING = ("params", "let", "arguments", "facts")
_OPTIONAL = ("variants", "positions", "let", "require", "facts", "guards", "select", "grid", "tests")
_TARGET_HINT = 'add arch: {type: target, tag: "{}"}'

D = TypeVar("D", Let, FactSpec)


def read_op(
    node: Node,
    digest: str,
    layouts: Mapping[str, Layout],
    targets: Sequence[str] | None,
    templates: Path | None,
    found: Collector,
    masks: Mapping[str, VariantSpec] | None = None,
) -> OpSpec:
    """The operator of one file. Every fault goes to `found`; the result is whole only without.

    `targets` (None: not known) and `templates` (None: not looked for) are what it may name; `masks`
    are the variants it shares with others.
    """
    top = Fields(node, "an operator", found, required=_REQUIRED, optional=_OPTIONAL)
    return _OpReader(top, layouts, targets, masks or {}).read(digest, templates)


class _OpReader:
    """Reads the sections in an order in which each knows the names it may use."""

    def __init__(
        self,
        top: Fields,
        layouts: Mapping[str, Layout],
        targets: Sequence[str] | None,
        masks: Mapping[str, VariantSpec],
    ) -> None:
        self._top, self._found = top, top.found
        self._layouts, self._targets, self._masks = layouts, targets, masks
        self._faulty: list[str] = []

    def read(self, digest: str, templates: Path | None) -> OpSpec:
        top, found = self._top, self._found
        variants = {entry.key.text: read_variant(entry, found) for entry in top.entries("variants")}
        choices = type_choices(self._layouts, self._targets, {**variants, **self._masks})
        params = {entry.key.text: read_param(entry, choices, found) for entry in top.entries("params")}
        lets = self._definitions("let", "a derived value", Let)
        arguments = tuple(read_argument(entry, params, found) for entry in top.entries("arguments"))
        facts = self._definitions("facts", "a fact", FactSpec)
        self._check_names(params, lets, arguments, facts)
        self._check_target(params)

        scope = _param_scope(params, choices)
        if _lost_names(top):
            scope[OPEN] = Symbol(BAD, "unknown")
        lets = self._check_lets(lets, scope)
        check_defaults(list(params.values()), scope, found)
        call = call_scope(scope, arguments, facts, found)
        facts = self._check_facts(facts, call)
        self._check_arguments(arguments, scope, call)
        requires = self._rules("require", scope)
        check_can_hold(requires, list(params.values()), lets, choices, self._layouts, found)
        selected = [read_select(entry, params, call, found) for entry in top.entries("select")]
        check_when(arguments, lets, _late(params, selected), found)
        op = OpSpec(
            name=top.name("op", "an operator"),
            doc=top.text("doc"),
            span=top.where("op"),
            spec_hash=digest,
            templates=read_templates(top, templates, found),
            params=tuple(params.values()),
            lets=lets,
            requires=requires,
            arguments=arguments,
            facts=facts,
            guards=self._rules("guards", call),
            select=tuple(rule for rule in selected if rule is not None),
            variants=variants,
            positions=self._positions(call),
            grids=read_grids(top, scope, call, found),
            tests=read_tests(top, scope, found),
            layouts=self._layouts,
        )
        return attach(op, self._masks, found)

    def _definitions(self, key: str, what: str, make: type[D]) -> tuple[D, ...]:
        result: list[D] = []
        for entry in self._top.entries(key):
            check_name(entry.key, what, self._found)
            expr = expression(entry.value, self._found)
            if expr is None:
                self._faulty.append(entry.key.text)
            else:
                result.append(make(entry.key.text, expr, entry.key.span))
        return tuple(result)

    def _check_names(
        self,
        params: Mapping[str, Param],
        lets: Sequence[Let],
        arguments: Sequence[ArgumentSpec],
        facts: Sequence[FactSpec],
    ) -> None:
        named = [(p.name, "parameter", p.span) for p in params.values()]
        named += [(let.name, "derived value", let.span) for let in lets]
        named += [(argument.name, "argument", argument.span) for argument in arguments]
        named += [(fact.name, "fact", fact.span) for fact in facts]
        check_unique(named, self._found)

    def _check_target(self, params: Mapping[str, Param]) -> None:
        """A variant is for one target, so one parameter holds it."""
        holders = [param for param in params.values() if param.type == "target"]
        readable = isinstance(self._top.node("params"), MapNode) and all(p.type for p in params.values())
        if readable and not holders:
            message = "an operator needs a parameter of type target"
            self._found.add("K202", message, self._top.keys["params"].span, _TARGET_HINT)
        for extra in holders[1:]:
            message = f"'{holders[0].name}' already holds the target"
            self._found.add("K215", message, extra.span)

    def _check_lets(self, lets: Sequence[Let], scope: dict[str, Symbol]) -> tuple[Let, ...]:
        ordered = in_order(lets, "derived value", self._found)
        placed = {let.name for let in ordered}
        circular = [let.name for let in lets if let.name not in placed]
        scope.update({name: Symbol(BAD, "derived value") for name in (*self._faulty, *circular)})
        for let in ordered:
            checked = check_expr(let.expr, scope, self._found)
            scope[let.name] = Symbol(checked.type, "derived value", checked.value)
        return ordered

    def _check_facts(self, facts: Sequence[FactSpec], call: Scope) -> tuple[FactSpec, ...]:
        ordered = in_order(facts, "fact", self._found)
        for fact in ordered:
            check_expr(fact.expr, call, self._found, INT)
        return ordered

    def _check_arguments(self, arguments: Sequence[ArgumentSpec], scope: Scope, call: Scope) -> None:
        for argument in arguments:
            for axis in argument.axes:
                check_expr(axis.size, call, self._found, INT)
            for expr in (argument.workspace, argument.when):
                if expr is not None:
                    check_expr(expr, scope, self._found, BOOL)
            for expr in (argument.box, argument.box_dims):
                if expr is not None:
                    check_expr(expr, scope, self._found, INT)

    def _positions(self, call: Scope) -> dict[str, Expr]:
        node = self._top.node("positions")
        if node is None:
            return {}
        fields = Fields(node, "'positions'", self._found, optional=tuple(POSITIONS))
        sizes = {axis: size for axis in fields.keys if (size := fields.expr(axis)) is not None}
        for size in sizes.values():
            check_expr(size, call, self._found, INT)
        return sizes

    def _rules(self, key: str, scope: Scope) -> tuple[Require, ...]:
        """The rules that are sound."""
        result = []
        for node in self._top.items(key):
            fields = Fields(node, "a rule", self._found, required=("check", "because"))
            check, because = fields.expr("check"), fields.text("because")
            if check is None:
                continue
            checked = check_expr(check, scope, self._found, BOOL)
            if checked.value is False:
                self._found.add("K213", "this rule can never hold", check.span)
            elif checked.type != BAD:
                result.append(Require(check, because, check.span))
        return tuple(result)


def _lost_names(top: Fields) -> bool:
    """Whether a section that defines names is there but was not read, so that names it defines
    would seem unknown: it is no mapping, or its key is misspelt."""
    unread = [key for key in _DEFINING if key in top and not isinstance(top.node(key), MapNode)]
    absent = [key for key in _DEFINING if key not in top]
    misspelt = [key for key in top.unknown if nearest(key, [*_REQUIRED, *_OPTIONAL]) in absent]
    return bool(unread or misspelt or "params" in absent)


def _late(params: Mapping[str, Param], selected: Sequence[SelectSpec | None]) -> set[str]:
    """What is not known of a call before its variant is chosen."""
    targets = {param.name for param in params.values() if param.type == "target"}
    return {"target", *targets, *(rule.param for rule in selected if rule is not None)}


def _param_scope(params: Mapping[str, Param], choices: Choices) -> dict[str, Symbol]:
    scope = {name: Symbol(param_type(param, choices), "parameter") for name, param in params.items()}
    holder = next((param for param in params.values() if param.type == "target"), None)
    if holder is not None:
        scope["target"] = Symbol(Type("target", scope[holder.name].type.choices), "target")
    return scope
