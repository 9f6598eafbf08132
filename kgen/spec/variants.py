"""The `variants` of an operator: masks and scores over positions and declared arguments."""

from __future__ import annotations

import re

from kgen.diagnostics import Collector
from kgen.spec.check import check_expr
from kgen.spec.model import VariantSpec
from kgen.spec.reader import Fields, check_name, describe
from kgen.spec.scope import Scope, Symbol
from kgen.spec.types import BAD, BOOL, FLOAT, INT, Type
from kgen.syntax.yaml import BadNode, Entry, ScalarNode

_POSITIONS = {"q": INT, "kv": INT, "head": INT, "batch": INT}
_ARGUMENT = re.compile(r"(int|float)(?:\[(head|batch|q|kv)\])?\Z")


def read_variant(entry: Entry, found: Collector) -> VariantSpec:
    """One mask/score variant, its expressions checked over positions and declared arguments."""
    check_name(entry.key, "a variant", found)
    fields = Fields(
        entry.value, "a variant", found, optional=("mask", "score", "args", "doc"), at=entry.key.span
    )
    scope = {name: Symbol(kind, "position") for name, kind in _POSITIONS.items()}
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
    match = _ARGUMENT.match(arg.value.text) if isinstance(arg.value, ScalarNode) else None
    if match is None:
        if not isinstance(arg.value, BadNode):
            hint = "int or float, or one value per position as in float[head], float[batch], float[kv]"
            found.add("K204", f"{describe(arg.value)} is no type of an argument", arg.value.span, hint)
        return BAD
    element = Type(match[1])
    return Type("array", None, element, match[2]) if match[2] else element
