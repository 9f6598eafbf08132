"""The `params` and `variants` of an operator, and the values a parameter may take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kgen.diagnostics import Collector, Span, choice_hint
from kgen.manifest import Scalar
from kgen.semantics import DTYPES
from kgen.spec.check import Scope, Symbol, check_expr
from kgen.spec.model import Param, VariantSpec
from kgen.spec.reader import Fields, as_bool, as_int, check_name, describe
from kgen.spec.types import BAD, BOOL, FLOAT, INT, Type
from kgen.syntax.yaml import BadNode, Entry, Node, ScalarNode

PARAM_TYPES = ("int", "float", "bool", "enum", "dtype", "layout", "target", "variant")
_KEYS = ("values", "min", "max", "default", "omit", "doc")
_TAG = re.compile(r"[A-Za-z0-9_]*\{\}[A-Za-z0-9_]*\Z")
_ARRAY = re.compile(r"(int|float)(?:\[(head|batch|q|kv)\])?\Z")
_MASK_NAMES = {"q": INT, "kv": INT, "head": INT, "batch": INT}


def read_param(entry: Entry, choices: Mapping[str, Sequence[str] | None], found: Collector) -> Param:
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
    )


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
    choices: Mapping[str, Sequence[str] | None],
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


def param_type(param: Param, choices: Mapping[str, Sequence[str] | None]) -> Type:
    """The type of the parameter's name in expressions."""
    if param.type in ("int", "float", "bool"):
        return Type(param.type)
    if not param.type:
        return BAD
    words = [str(value) for value in param.values] or choices.get(param.type)
    return Type(param.type, tuple(words) if words is not None else None)


def check_defaults(params: Sequence[Param], scope: Scope, found: Collector) -> None:
    """Defaults and tags: types, and constant defaults among the values of their parameter."""
    for param in params:
        if param.default is not None and param.name in scope:
            checked = check_expr(param.default, scope, found, scope[param.name].type)
            value = checked.value
            if (
                value is not None
                and param.values
                and param.type in ("int", "float")
                and value not in param.values
            ):
                listed = ", ".join(str(each) for each in param.values)
                found.add(
                    "K204",
                    f"the default {value} is no value of '{param.name}'",
                    param.default.span,
                    f"choices: {listed}",
                )
            elif value is not None:
                check_range(value, (param.minimum, param.maximum), param.default.span, found)
        if param.omit is not None:
            check_expr(param.omit, scope, found, BOOL)


def read_variant(entry: Entry, found: Collector) -> VariantSpec:
    """One mask/score variant, its expressions checked over positions and declared arguments."""
    check_name(entry.key, "a variant", found)
    fields = Fields(
        entry.value, "a variant", found, optional=("mask", "score", "args", "doc"), at=entry.key.span
    )
    scope = {name: Symbol(kind, "position") for name, kind in _MASK_NAMES.items()}
    args: dict[str, str] = {}
    for arg in fields.entries("args"):
        kind = _argument_type(arg, scope, found)
        scope[arg.key.text] = Symbol(kind, "argument")
        args[arg.key.text] = arg.value.text if isinstance(arg.value, ScalarNode) else ""
    mask, score = fields.expr("mask"), fields.expr("score")
    if mask is not None:
        check_expr(mask, scope, found, BOOL)
    if score is not None:
        check_expr(score, {**scope, "s": Symbol(FLOAT, "score")}, found, FLOAT)
    return VariantSpec(entry.key.text, entry.key.span, mask, score, args)


def _argument_type(arg: Entry, scope: Scope, found: Collector) -> Type:
    check_name(arg.key, "an argument", found)
    if arg.key.text in scope or arg.key.text == "s":
        found.add("K215", f"'{arg.key.text}' already has a meaning in masks and scores", arg.key.span)
    match = _ARRAY.match(arg.value.text) if isinstance(arg.value, ScalarNode) else None
    if match is None:
        if not isinstance(arg.value, BadNode):
            hint = "int or float, or one value per position as in float[head], float[batch], float[kv]"
            found.add("K204", f"{describe(arg.value)} is no type of an argument", arg.value.span, hint)
        return BAD
    element = Type(match[1])
    return Type("array", None, element, match[2]) if match[2] else element


def type_choices(
    layouts: Sequence[str], targets: Sequence[str] | None, variants: Sequence[str]
) -> dict[str, Sequence[str] | None]:
    """The words of each type that has a known set of them."""
    return {"dtype": list(DTYPES), "layout": layouts, "target": targets, "variant": variants}
