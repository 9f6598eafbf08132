"""Masks and scores: the `variants` of an operator, those all operators share, and those of a build.

Each is an expression over positions and declared arguments. What it divides positions by is a number
above 0, or made of int arguments that a call is held to; so a mask has a value everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from kgen.diagnostics import Collector
from kgen.semantics import evaluate
from kgen.spec.check import check_expr
from kgen.spec.model import OpSpec, Require, VariantSpec
from kgen.spec.reader import Fields, check_name, describe
from kgen.spec.scope import Scope, Symbol
from kgen.spec.types import BAD, BOOL, FLOAT, INT, Type
from kgen.syntax.ast import Binary, Call, Compare, Expr, Int, names_of, to_code, walk
from kgen.syntax.yaml import BadNode, Entry, Node, ScalarNode

POSITIONS: Mapping[str, Type] = {"q": INT, "kv": INT, "head": INT, "batch": INT}
_ARGUMENT = re.compile(r"(int|float)(?:\[(head|batch|q|kv)\])?\Z")


def read_masks(node: Node, found: Collector) -> Mapping[str, VariantSpec]:
    """Every mask of a file of its own."""
    top = Fields(node, "masks.yaml", found, required=("masks",))
    return {entry.key.text: read_variant(entry, found) for entry in top.entries("masks")}


def read_variant(entry: Entry, found: Collector, *, of_build: bool = False) -> VariantSpec:
    """One mask/score variant, its expressions checked over positions and declared arguments."""
    check_name(entry.key, "a variant", found)
    fields = Fields(
        entry.value, "a variant", found, optional=("mask", "score", "args", "doc"), at=entry.key.span
    )
    scope = {name: Symbol(kind, "position") for name, kind in POSITIONS.items()}
    args: dict[str, Type] = {}
    for arg in fields.entries("args"):
        kind = _argument_type(arg, scope, found)
        scope[arg.key.text] = Symbol(kind, "argument")
        args[arg.key.text] = kind
    mask, score = fields.expr("mask"), fields.expr("score")
    sound = [
        expr
        for expr, wanted in ((mask, BOOL), (score, FLOAT))
        if expr is not None and _check(expr, scope, wanted, found)
    ]
    guards = tuple(guard for expr in sound for guard in _guards(expr, args, found))
    return VariantSpec(
        name=entry.key.text,
        span=entry.key.span,
        mask=mask,
        score=score,
        args=args,
        guards=guards,
        doc=fields.text("doc"),
        of_build=of_build,
    )


def attach(op: OpSpec, masks: Mapping[str, VariantSpec], found: Collector) -> OpSpec:
    """The operator with more variants; one without a parameter to choose among them stays as it is.

    Reports names that are taken, and arrays whose size the operator does not know."""
    if not any(param.type == "variant" for param in op.params):
        return op
    taken = {argument.name for argument in op.arguments}
    for mask in masks.values():
        if mask.name in op.variants:
            note = f"first given at {op.variants[mask.name].span}"
            found.add("K215", f"{op.name} already has a variant '{mask.name}'", mask.span, None, (note,))
    variants = {**op.variants, **masks}
    check_arguments(variants.values(), op.name, taken, op.positions, found)
    return replace(op, variants=variants)


def check_arguments(
    variants: Iterable[VariantSpec],
    op: str,
    taken: Collection[str],
    positions: Mapping[str, Expr],
    found: Collector,
) -> None:
    """Report arguments of variants that an operator cannot take."""
    for variant in variants:
        for name, kind in variant.args.items():
            if name in taken:
                message = f"'{name}' is an argument of {op}, and of its variant '{variant.name}'"
                found.add("K215", message, variant.span, "rename the variant's argument")
            if kind.axis and kind.axis not in positions:
                message = f"{op} does not say how many values {kind} '{name}' of '{variant.name}' has"
                hint = f"add it to the operator: positions: {{{kind.axis}: ...}}"
                found.add("K202", message, variant.span, hint)


def _check(expr: Expr, scope: Scope, wanted: Type, found: Collector) -> bool:
    score = {"s": Symbol(FLOAT, "score")} if wanted == FLOAT else {}
    return check_expr(expr, {**scope, **score}, found, wanted).type != BAD


def _guards(expr: Expr, args: Mapping[str, Type], found: Collector) -> Iterator[Require]:
    """What a call must hold so that no division of `expr` is by what it must not be."""
    scalars = {name: kind for name, kind in args.items() if not kind.axis}
    for divisor, whole in _divisors(expr):
        names = names_of(divisor)
        if whole and not names and _is_above_zero(divisor):
            continue
        if names and all(name in scalars for name in names):
            op, because = (">", "must be above 0") if whole else ("!=", "must not be 0")
            yield Require(
                Compare((op,), (divisor, Int(0)), span=divisor.span),
                f"{' and '.join(sorted(names))} {because}: something is divided by it",
                divisor.span,
            )
        elif whole:
            hint = "divide by a number above 0, or by an int argument"
            found.add("K209", "it is not certain that this divisor is above 0", divisor.span, hint)


def _is_above_zero(expr: Expr) -> bool:
    """Whether a number without names, which the checker has accepted, is above 0."""
    value = evaluate(to_code(expr), {})
    return not isinstance(value, str) and value > 0


def _divisors(expr: Expr) -> Iterator[tuple[Expr, bool]]:
    """What is divided by, and whether the division is of ints."""
    for node in walk(expr):
        match node:
            case Binary(op="//" | "%"):
                yield node.right, True
            case Binary(op="/"):
                yield node.right, False
            case Call(function="ceil_div" | "align", args=(_, divisor)):
                yield divisor, True


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
