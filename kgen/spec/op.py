"""specs/ops/*.yaml: an operator, from nodes to the typed model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kgen.diagnostics import Collector, Span, nearest
from kgen.layout import Layout
from kgen.spec import params as param_rules
from kgen.spec.arguments import axis_facts, read_argument
from kgen.spec.check import Scope, Symbol, check_expr
from kgen.spec.feasible import check_can_hold
from kgen.spec.model import (
    ArgumentSpec,
    FactSpec,
    GridSpec,
    Let,
    OpSpec,
    Param,
    Require,
    SelectSpec,
    TestSpec,
)
from kgen.spec.order import Growth, check_unique, in_order
from kgen.spec.reader import Fields, as_bool, as_float, as_int, check_name, describe, expression
from kgen.spec.selection import read_select
from kgen.spec.types import BAD, BOOL, INT, Type
from kgen.syntax.ast import Expr, Int, Name, walk
from kgen.syntax.yaml import Entry, ListNode, Node, ScalarNode

_REQUIRED = ("op", "doc", "templates", "params", "arguments")
_OPTIONAL = ("variants", "let", "require", "facts", "guards", "select", "grid", "tests")
GROUPS = ("cpu", "gpu")


def read_op(
    node: Node, digest: str, layouts: Mapping[str, Layout], targets: Sequence[str] | None,
    templates: Path | None, found: Collector,
) -> OpSpec:  # fmt: skip
    """The operator of one file. Every fault goes to `found`; the result is whole only without."""
    return _OpReader(
        Fields(node, "an operator", found, required=_REQUIRED, optional=_OPTIONAL), layouts, targets
    ).read(digest, templates)


class _OpReader:
    """Reads the sections in an order in which each knows the names it may use."""

    def __init__(self, top: Fields, layouts: Mapping[str, Layout], targets: Sequence[str] | None) -> None:
        self._top, self._found = top, top.found
        self._layouts, self._targets = layouts, targets

    def read(self, digest: str, templates: Path | None) -> OpSpec:
        top, found = self._top, self._found
        variants = {
            entry.key.text: param_rules.read_variant(entry, found) for entry in top.entries("variants")
        }
        choices = param_rules.type_choices(list(self._layouts), self._targets, list(variants))
        params = {
            entry.key.text: param_rules.read_param(entry, choices, found) for entry in top.entries("params")
        }
        lets = self._definitions("let", "a derived value", Let)
        arguments = tuple(read_argument(entry, params, found) for entry in top.entries("arguments"))
        facts = self._definitions("facts", "a fact", FactSpec)
        self._check_names(params, lets, arguments, facts)
        scope = {
            name: Symbol(param_rules.param_type(param, choices), "parameter")
            for name, param in params.items()
        }
        param_rules.check_defaults(list(params.values()), scope, found)
        if any(param.type == "target" for param in params.values()):
            scope["target"] = Symbol(Type("target", choices["target"] and tuple(choices["target"])), "target")
        lets = self._check_lets(lets, scope)
        call = self._call_scope(scope, arguments, facts)
        facts = self._check_facts(facts, call)
        self._check_arguments(arguments, scope, call)
        requires = self._rules("require", scope)
        check_can_hold(requires, list(params.values()), lets, choices, self._layouts, found)
        op = OpSpec(
            name=top.name("op", "an operator"),
            doc=top.text("doc"),
            span=top.where("op"),
            spec_hash=digest,
            templates=self._templates(templates),
            params=tuple(params.values()),
            lets=lets,
            requires=requires,
            arguments=arguments,
            facts=facts,
            guards=self._rules("guards", call),
            select=self._select(params, call),
            variants=variants,
            grids=dict(self._grids(call)),
            tests=self._tests(scope),
            layouts=self._layouts,
        )
        self._check_growth(op)
        return op

    def _definitions(self, key: str, what: str, make: type[Let] | type[FactSpec]) -> tuple:  # type: ignore[type-arg]
        result = []
        for entry in self._top.entries(key):
            check_name(entry.key, what, self._found)
            expr = expression(entry.value, self._found)
            result.append(make(entry.key.text, expr if expr is not None else _faulty(entry), entry.key.span))
        return tuple(result)

    def _check_names(
        self,
        params: Mapping[str, Param],
        lets: Sequence[Let],
        arguments: Sequence[ArgumentSpec],
        facts: Sequence[FactSpec],
    ) -> None:
        named: list[tuple[str, str, Span]] = [(p.name, "parameter", p.span) for p in params.values()]
        named += [(let.name, "derived value", let.span) for let in lets]
        named += [(argument.name, "argument", argument.span) for argument in arguments]
        named += [(fact.name, "fact", fact.span) for fact in facts]
        check_unique(named, self._found)

    def _check_lets(self, lets: Sequence[Let], scope: dict[str, Symbol]) -> tuple[Let, ...]:
        ordered = in_order(lets, "let", self._found)
        for let in lets:
            if let not in ordered:
                scope[let.name] = Symbol(BAD, "derived value")
        for let in ordered:
            if _is_faulty(let.expr):
                scope[let.name] = Symbol(BAD, "derived value")
                continue
            checked = check_expr(let.expr, scope, self._found)
            scope[let.name] = Symbol(checked.type, "derived value", checked.value)
        return ordered

    def _call_scope(
        self, scope: Scope, arguments: Sequence[ArgumentSpec], facts: Sequence[FactSpec]
    ) -> dict[str, Symbol]:
        """What is known when an operator is called: also scalars, shapes and facts."""
        call = dict(scope)
        call.update(
            {a.name: Symbol(Type(a.kind), "argument") for a in arguments if a.kind in ("int", "float")}
        )
        derived = {fact.name for fact in facts}
        shapes = axis_facts(arguments, [*call, *derived])
        for name, place in shapes.items():
            self._check_misspelt(name, place, arguments, scope)
            call[name] = Symbol(INT, "shape")
        call.update({name: Symbol(INT, "fact") for name in derived})
        return call

    def _check_misspelt(
        self, name: str, place: Name | None, arguments: Sequence[ArgumentSpec], scope: Scope
    ) -> None:
        """A shape named once, with a name close to a parameter's, is a slip of the pen."""
        if place is None:
            return
        uses = sum(
            isinstance(node, Name) and node.name == name
            for argument in arguments for axis in argument.axes for node in walk(axis.size)
        )  # fmt: skip
        close = nearest(name, [known for known in scope if known != "target"])
        if uses == 1 and close is not None and _distance(name, close) <= 2:
            message = f"unknown name '{name}'"
            self._found.add(
                "K205", message, place.span, f"did you mean '{close}'? (a new shape needs a name of its own)"
            )

    def _check_facts(self, facts: Sequence[FactSpec], call: dict[str, Symbol]) -> tuple[FactSpec, ...]:
        ordered = in_order(facts, "fact", self._found)
        for fact in ordered:
            if not _is_faulty(fact.expr):
                check_expr(fact.expr, call, self._found, INT)
        return ordered

    def _check_arguments(self, arguments: Sequence[ArgumentSpec], scope: Scope, call: Scope) -> None:
        for argument in arguments:
            for axis in argument.axes:
                check_expr(axis.size, call, self._found, INT)
            if argument.workspace is not None:
                check_expr(argument.workspace, scope, self._found, BOOL)

    def _rules(self, key: str, scope: Scope) -> tuple[Require, ...]:
        result = []
        for node in self._top.items(key):
            fields = Fields(node, "a rule", self._found, required=("check", "because"))
            check, because = fields.expr("check"), fields.text("because")
            if check is None:
                continue
            checked = check_expr(check, scope, self._found, BOOL)
            if checked.value is False:
                self._found.add("K213", "this rule can never hold", check.span)
            result.append(Require(check, because, check.span))
        return tuple(result)

    def _templates(self, root: Path | None) -> dict[str, str]:
        fields = (
            Fields(self._top.node("templates"), "'templates'", self._found, optional=GROUPS)
            if (self._top.node("templates") is not None)
            else None
        )
        if fields is None:
            return {}
        if fields.ok and not fields.keys:
            self._found.add("K214", "an operator has at least one template", fields.span, "keys: cpu, gpu")
        result = {}
        for group in fields.keys:
            result[group] = path = fields.text(group)
            if root is not None and path and not _is_inside(root, path):
                near = nearest(path, _templates_in(root))
                hint = f"did you mean '{near}'?" if near else "paths are relative to templates/"
                self._found.add("K216", f"there is no template '{path[:80]}'", fields.where(group), hint)
        return result

    def _select(self, params: Mapping[str, Param], call: Scope) -> tuple[SelectSpec, ...]:
        rules = [read_select(entry, params, call, self._found) for entry in self._top.entries("select")]
        return tuple(rule for rule in rules if rule is not None)

    def _grids(self, call: Scope) -> Iterator[tuple[str, GridSpec]]:
        node = self._top.node("grid")
        if node is None:
            return
        for group in (fields := Fields(node, "'grid'", self._found, optional=GROUPS)).keys:
            inner = fields.node(group)
            if inner is None:
                continue
            grid = Fields(
                inner, "a grid", self._found, required=("x", "y", "z", "block"), at=fields.keys[group].span
            )
            sizes = {key: grid.expr(key) for key in ("x", "y", "z", "block")}
            for expr in sizes.values():
                if expr is not None:
                    check_expr(expr, call, self._found, INT)
            if all(sizes.values()):
                yield group, GridSpec(group, **{key: expr for key, expr in sizes.items() if expr is not None})

    def _tests(self, scope: Scope) -> tuple[TestSpec, ...]:
        result = []
        for node in self._top.items("tests"):
            test = _TestReader(self._found, scope).read(node)
            if test is not None:
                result.append(test)
        check_unique([(test.name, "test", test.span) for test in result], self._found)
        return tuple(result)

    def _check_growth(self, op: OpSpec) -> None:
        growth = Growth()
        for let in op.lets:
            growth.define(let.name, let.expr, self._found)
        for expr in _expressions(op):
            growth.check(expr, self._found)


class _TestReader:
    """One row of `tests`: a name, an optional `when`, and values of the operator's own keys."""

    def __init__(self, found: Collector, scope: Scope) -> None:
        self._found, self._scope = found, scope

    def read(self, node: Node) -> TestSpec | None:
        keys = [entry.key.text for entry in getattr(node, "entries", ())]
        fields = Fields(node, "a test", self._found, required=("name",), optional=keys)
        if not fields.ok:
            return None
        when = fields.expr("when")
        if when is not None:
            check_expr(when, self._scope, self._found, BOOL)
        values = {key: self._value(fields.node(key)) for key in fields.keys if key not in ("name", "when")}
        return TestSpec(fields.name("name", "a test"), fields.where("name"), values, when)

    def _value(self, node: Node | None) -> object:
        if isinstance(node, ListNode):
            return tuple(self._value(item) for item in node.items)
        if not isinstance(node, ScalarNode):
            if node is not None:
                self._found.add(
                    "K203",
                    f"a value of a test is a number, an expression or a list; found {describe(node)}",
                    node.span,
                )
            return 0
        for read in (as_int, as_float, as_bool):
            value = read(node)
            if value is not None:
                return value
        expr = expression(node, self._found)
        if expr is None:
            return 0
        check_expr(expr, self._scope, self._found)
        return expr


def _expressions(op: OpSpec) -> Iterator[Expr]:
    for rule in (*op.requires, *op.guards):
        yield rule.check
    for fact in op.facts:
        yield fact.expr
    for argument in op.arguments:
        yield from (axis.size for axis in argument.axes)
        if argument.workspace is not None:
            yield argument.workspace
    for rule in op.select:
        yield from (rule.policies or {"": rule.want}).values()
    for grid in op.grids.values():
        yield from (grid.x, grid.y, grid.z, grid.block)


def _faulty(entry: Entry) -> Expr:
    return Int(0, span=entry.value.span)


def _is_faulty(_expr: Expr) -> bool:
    return False


def _is_inside(root: Path, path: str) -> bool:
    parts = Path(path).parts
    return ".." not in parts and not Path(path).is_absolute() and (root / path).is_file()


def _templates_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.j2"))


def _distance(left: str, right: str) -> int:
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
