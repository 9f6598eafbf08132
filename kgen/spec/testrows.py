"""The `tests` of an operator: rows of numbers, expressions and lists, each under a name."""

from __future__ import annotations

from kgen.diagnostics import Collector
from kgen.spec.check import check_expr
from kgen.spec.model import TestSpec
from kgen.spec.names import check_unique
from kgen.spec.reader import Fields, as_bool, as_float, as_int, describe, expression
from kgen.spec.scope import Scope
from kgen.spec.types import BOOL
from kgen.syntax.yaml import BadNode, ListNode, MapNode, Node


def read_tests(top: Fields, scope: Scope, found: Collector) -> tuple[TestSpec, ...]:
    """Every row. Beside `name` and `when` the keys are those the operator's harness knows."""
    rows = [_row(node, scope, found) for node in top.items("tests")]
    tests = tuple(row for row in rows if row is not None)
    check_unique([(test.name, "test", test.span) for test in tests if test.name], found)
    return tests


def _row(node: Node, scope: Scope, found: Collector) -> TestSpec | None:
    keys = [entry.key.text for entry in node.entries] if isinstance(node, MapNode) else []
    fields = Fields(node, "a test", found, required=("name",), optional=keys)
    if not fields.ok:
        return None
    when = fields.expr("when")
    if when is not None:
        check_expr(when, scope, found, BOOL)
    values = {
        key: _value(value, scope, found)
        for key in fields.keys
        if key not in ("name", "when") and (value := fields.node(key)) is not None
    }
    places = {key: node.span for key, node in fields.keys.items()}
    return TestSpec(fields.name("name", "a test"), fields.where("name"), values, when, places)


def _value(node: Node, scope: Scope, found: Collector) -> object:
    """A number, a truth, an expression over parameters, or a tuple of them."""
    if isinstance(node, ListNode):
        return tuple(_value(item, scope, found) for item in node.items)
    if isinstance(node, MapNode):
        message = f"a value of a test is a number, an expression or a list; found {describe(node)}"
        found.add("K203", message, node.span)
    if isinstance(node, MapNode | BadNode):
        return 0
    for read in (as_int, as_float, as_bool):
        value = read(node)
        if value is not None:
            return value
    expr = expression(node, found)
    if expr is not None:
        check_expr(expr, scope, found)
    return expr
