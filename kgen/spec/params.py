"""The `params` and `variants` of an operator, and the values a parameter may take."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from kgen.diagnostics import Collector, Span, choice_hint
from kgen.manifest import Scalar
from kgen.semantics import DTYPES
from kgen.spec.check import check_expr
from kgen.spec.model import Let, Param
from kgen.spec.order import in_order
from kgen.spec.reader import Fields, as_bool, as_int, check_name, describe
from kgen.spec.scope import Scope
from kgen.spec.types import BAD, BOOL, Type
from kgen.syntax.ast import Expr
from kgen.syntax.yaml import BadNode, Entry, Node, ScalarNode

PARAM_TYPES = ("int", "float", "bool", "enum", "dtype", "layout", "target", "variant")
_KEYS = ("values", "min", "max", "default", "omit", "doc", "named")
_TAG = re.compile(r"[A-Za-z0-9_]*\{\}[A-Za-z0-9_]*\Z")

Choices = Mapping[str, Sequence[str] | None]
"""The words of each type that has some; None where they are not known."""


def read_param(entry: Entry, choices: Choices, found: Collector) -> Param:
    """One parameter. `choices` gives the words of each type that has them."""
    name = entry.key.text
    check_name(entry.key, "a parameter", found)
    fields = Fields(
        entry.value, "a parameter", found, required=("type", "tag"), optional=_KEYS, at=entry.key.span
    )
    kind = fields.choice("type", PARAM_TYPES)
    tag = fields.text("tag", "{}")
    if not _TAG.match(tag):
        hint = "a tag is letters and digits around one {}, as in d{}"
        found.add("K203", f"'{tag[:40]}' is no tag", fields.where("tag"), hint)
        tag = "{}"
    if kind == "enum" and "values" not in fields:
        found.add("K202", "an enum needs the key 'values'", entry.key.span)
    low, high = _bounds(fields, kind)
    return Param(
        name=name,
        type=kind,
        span=entry.key.span,
        tag=tag,
        values=_values(fields, kind, choices, (low, high)),
        minimum=low,
        maximum=high,
        default=fields.expr("default"),
        omit=fields.expr("omit"),
        doc=fields.text("doc"),
        named=_named(fields, kind, (low, high)),
    )


def _named(fields: Fields, kind: str, bounds: tuple[int | None, int | None]) -> Mapping[str, int]:
    """The words for values of an int, each for another one."""
    found, named = fields.found, dict[str, int]()
    if "named" in fields and kind not in ("int", ""):
        message = f"only an int has 'named'; this is a parameter of type {kind}"
        found.add("K203", message, fields.where("named"))
        return named
    for entry in fields.entries("named"):
        check_name(entry.key, "a value", found)
        value = read_value(entry.value, "int", found)
        if not isinstance(value, int):
            continue
        if value in named.values():
            found.add("K215", f"{value} has two names", entry.value.span)
        elif check_range(value, bounds, entry.value.span, found):
            named[entry.key.text] = value
    return named


def _bounds(fields: Fields, kind: str) -> tuple[int | None, int | None]:
    low, high = fields.integer("min"), fields.integer("max")
    for key in ("min", "max"):
        if key in fields and kind not in ("int", ""):
            fields.found.add(
                "K203", f"only an int has '{key}'; this is a parameter of type {kind}", fields.where(key)
            )
    if low is not None and high is not None and low > high:
        fields.found.add("K218", f"'min' {low} is above 'max' {high}", fields.where("min"))
    return low, high


def _values(
    fields: Fields,
    kind: str,
    choices: Choices,
    bounds: tuple[int | None, int | None],
) -> tuple[Scalar, ...]:
    words = choices.get(kind)
    result: list[Scalar] = []
    for node in fields.items("values", filled=True):
        value = read_value(node, kind, fields.found) if kind else None
        if value is None:
            continue
        if words is not None and value not in words:
            fields.found.add(
                "K204", f"unknown {kind} '{value}'", node.span, choice_hint(str(value), list(words))
            )
        elif value in result:
            fields.found.add("K215", f"{describe(node)} is listed twice", node.span)
        elif check_range(value, bounds, node.span, fields.found):
            result.append(value)
    return tuple(result)


def check_range(value: Scalar, bounds: tuple[int | None, int | None], span: Span, found: Collector) -> bool:
    """Whether an int lies within the bounds of its parameter; otherwise it is reported."""
    low, high = bounds
    if not isinstance(value, int) or isinstance(value, bool):
        return True
    if (low is not None and value < low) or (high is not None and value > high):
        limits = (
            f"from {low} to {high}"
            if low is not None and high is not None
            else (f"at least {low}" if low is not None else f"at most {high}")
        )
        found.add("K218", f"{value} is out of range", span, f"the parameter is {limits}")
        return False
    return True


def read_value(node: Node, kind: str, found: Collector) -> Scalar | None:
    """A value of a parameter of type `kind` as written in a list of values."""
    if isinstance(node, BadNode):
        return None
    value: Scalar | None
    if kind in ("int", "bool"):
        value = as_int(node) if kind == "int" else as_bool(node)
        wanted = "a whole number" if kind == "int" else "true or false"
    elif kind == "float":
        value, wanted = _float(node), "a number"
    else:
        text = node.text if isinstance(node, ScalarNode) else ""
        value, wanted = text or None, "a word"
    if value is None:
        found.add("K203", f"expected {wanted}, found {describe(node)}", node.span)
    return value


def _float(node: Node) -> float | None:
    try:
        return float(node.text) if isinstance(node, ScalarNode) and not node.quoted else None
    except ValueError:
        return None


def param_type(param: Param, choices: Choices) -> Type:
    """The type of the parameter's name in expressions."""
    if param.type in ("int", "float", "bool"):
        return Type(param.type)
    if not param.type:
        return BAD
    words = [str(value) for value in param.values] or choices.get(param.type)
    return Type(param.type, tuple(words) if words is not None else None)


def check_defaults(params: Sequence[Param], scope: Scope, found: Collector) -> None:
    """Defaults and `omit`: types, constant defaults among the legal values, no circles."""
    defaults = [Let(param.name, param.default, param.span) for param in params if param.default is not None]
    in_order(defaults, "default", found)
    own = {param.name: scope[param.name] for param in params if param.name in scope}
    for param in params:
        if param.default is not None:
            checked = check_expr(param.default, own, found, own[param.name].type)
            if checked.value is not None:
                _check_constant(param, param.default, checked.value, found)
        if param.omit is not None:
            check_expr(param.omit, scope, found, BOOL)


def _check_constant(param: Param, default: Expr, value: Scalar, found: Collector) -> None:
    if param.type in ("int", "float") and param.values and value not in param.values:
        listed = ", ".join(str(each) for each in param.values)
        message = f"the default {value} is no value of '{param.name}'"
        found.add("K204", message, default.span, f"choices: {listed}")
    else:
        check_range(value, (param.minimum, param.maximum), default.span, found)


def type_choices(
    layouts: Collection[str], targets: Sequence[str] | None, variants: Collection[str]
) -> Choices:
    """The words of each type. An empty set of layouts or variants is one that could not be read."""
    return {
        "dtype": list(DTYPES),
        "layout": list(layouts) or None,
        "target": targets,
        "variant": list(variants) or None,
    }
