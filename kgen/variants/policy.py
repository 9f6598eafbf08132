"""What dispatch must know of an operator, compiled from its spec into plain JSON-able data.

Derived values (`let`) do not cross to dispatch: expressions are inlined, so that they speak only of
parameters, facts and scalars.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from kgen.fp8 import DTYPES as FP8
from kgen.layout import AXES, CACHE_SIZES
from kgen.manifest import (
    FLAVOUR,
    HEADER,
    ArgumentRule,
    AxisRule,
    Code,
    Guard,
    ParamRule,
    Policy,
    Scalar,
    SelectRule,
    VariantArg,
    VariantRule,
    Word,
    tail_words,
)
from kgen.spec.arguments import axis_facts
from kgen.spec.evaluate import inline, target_fields
from kgen.spec.model import ArgumentSpec, OpSpec, SelectSpec, TargetSpec, VariantSpec
from kgen.syntax.ast import Attr, Expr, Name, to_code, walk


def compile_policy(op: OpSpec, targets: Mapping[str, TargetSpec] | None = None) -> Policy:
    """The policy of an operator, for calls on these targets. Masks that a build has added are left out."""
    variants = tuple(rule_of(spec) for spec in op.variants.values() if not spec.of_build)
    return Policy(
        op=op.name,
        spec_hash=op.spec_hash,
        params=tuple(
            ParamRule(
                name=p.name,
                type=p.type,
                tag=p.tag,
                values=tuple(rule.name for rule in variants) if p.type == "variant" else p.values,
                default=code_of(op, p.default) if p.default is not None else None,
                where=str(p.span),
            )
            for p in op.params
        ),
        arguments=tuple(_argument(op, a) for a in op.arguments),
        words=argument_words(op),
        facts=tuple((fact.name, code_of(op, fact.expr)) for fact in op.facts),
        guards=tuple(Guard(code_of(op, g.check), g.because, str(g.span)) for g in op.guards),
        select=tuple(_select(op, rule) for rule in op.select),
        layouts={name: dataclasses.asdict(layout) for name, layout in op.layouts.items()},
        variants=variants,
        positions={axis: code_of(op, size) for axis, size in op.positions.items()},
        targets=_figures(op, targets or {}),
    )


def rule_of(spec: VariantSpec) -> VariantRule:
    """A mask and score as dispatch sees it."""
    args = [VariantArg(name, (kind.element or kind).kind, kind.axis) for name, kind in spec.args.items()]
    return VariantRule(
        name=spec.name,
        args=tuple(args),
        guards=tuple(Guard(to_code(g.check), g.because, str(g.span)) for g in spec.guards),
        mask=to_code(spec.mask) if spec.mask is not None else None,
        score=to_code(spec.score) if spec.score is not None else None,
        where=str(spec.span),
    )


def argument_words(op: OpSpec, chosen: VariantSpec | None = None) -> tuple[Word, ...]:
    """The argument block, word by word: header, arguments in spec order, facts that axis sizes
    define in order of appearance, derived facts; then the arguments of the chosen mask and score."""
    words = [Word(name, "int") for name in HEADER]
    for argument in op.arguments:
        words += _argument_words(argument)
    derived = [fact.name for fact in op.facts]
    known = [p.name for p in op.params] + [let.name for let in op.lets]
    known += [a.name for a in op.arguments if a.kind in ("int", "float")]
    shapes = axis_facts(op.arguments, [*known, *derived])
    tail = tail_words(rule_of(chosen)) if chosen is not None else ()
    return (*words, *(Word(name, "fact") for name in (*shapes, *derived)), *tail)


def code_of(op: OpSpec, expr: Expr) -> Code:
    """An expression as it crosses to dispatch."""
    return to_code(inline(expr, op.lets))


def _argument_words(argument: ArgumentSpec) -> list[Word]:
    name = argument.name
    if argument.kind in ("int", "float"):
        return [Word(name, argument.kind, name)]
    strides = [Word(f"{name}_stride_{axis}", "stride", name, axis) for axis in strided_axes(argument)]
    return [Word(name, "pointer", name), *strides]


def strided_axes(argument: ArgumentSpec) -> tuple[str, ...]:
    """The axes of a tensor that have a word for their stride: all of a cache; else all but the last, whose
    stride is 1, unless one element may stand for all."""
    if argument.kind == "cache":
        return AXES
    names = tuple(axis.name for axis in argument.axes)
    return names if argument.broadcast else names[:-1]


def _figures(op: OpSpec, targets: Mapping[str, TargetSpec]) -> Mapping[str, Mapping[str, Scalar]]:
    """What the expressions that dispatch evaluates ask of each target, by dotted name."""
    records = {"target", *(p.name for p in op.params if p.type == "target")}
    parts = (part for expr in _expressions(op) for part in walk(inline(expr, op.lets)))
    asked = {part.dotted: part.name for part in parts if isinstance(part, Attr) and part.base.name in records}
    if any(dtype in p.values for p in op.params if p.type == "dtype" for dtype in FP8):
        asked[FLAVOUR] = "fp8"
    if not asked:
        return {}
    known = {name: target_fields(targets[name]) for name in sorted(targets)}
    return {name: {dotted: known[name][asked[dotted]] for dotted in sorted(asked)} for name in known}


def _expressions(op: OpSpec) -> Iterator[Expr]:
    yield from (fact.expr for fact in op.facts)
    yield from (guard.check for guard in op.guards)
    for rule in op.select:
        yield from (rule.policies or {"": rule.want}).values()


@dataclasses.dataclass(frozen=True)
class _Axis:
    name: str
    size: Expr
    unit: bool


def _axes(argument: ArgumentSpec) -> tuple[_Axis, ...]:
    """The axes of a tensor; of a cache, all four, in the order of the words."""
    if argument.kind == "cache":
        return tuple(_Axis(axis, Name(CACHE_SIZES[axis]), False) for axis in AXES)
    strided = strided_axes(argument)
    return tuple(_Axis(axis.name, axis.size, axis.name not in strided) for axis in argument.axes)


def _argument(op: OpSpec, argument: ArgumentSpec) -> ArgumentRule:
    when = argument.workspace or argument.when
    return ArgumentRule(
        name=argument.name,
        kind=argument.kind,
        dtype=argument.dtype,
        axes=tuple(AxisRule(axis.name, code_of(op, axis.size), axis.unit) for axis in _axes(argument)),
        cache=argument.cache,
        access=argument.access,
        optional=argument.optional,
        workspace=argument.workspace is not None,
        zeroed=argument.zeroed,
        when=code_of(op, when) if when is not None else None,
        because=argument.because,
        broadcast=argument.broadcast,
    )


def _select(op: OpSpec, rule: SelectSpec) -> SelectRule:
    policies = rule.policies or {}
    return SelectRule(
        param=rule.param,
        want=code_of(op, rule.want),
        pick=rule.pick,
        where=str(rule.span),
        default=rule.default,
        policies={name: code_of(op, expr) for name, expr in policies.items()},
        env=rule.env,
    )
