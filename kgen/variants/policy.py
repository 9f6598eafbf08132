"""What dispatch must know of an operator, compiled from its spec into plain JSON-able data.

Nothing is written out on the way: derived values (`let`) that these expressions name cross beside them, each
once, and so do the alternatives of a rule that others name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from kgen.definitions import needed
from kgen.fp8 import DTYPES as FP8
from kgen.layout import AXES, CACHE_SIZES
from kgen.manifest import (
    FLAVOUR,
    HEADER,
    ArgumentRule,
    AxisRule,
    Guard,
    ParamRule,
    Policy,
    Scalar,
    SelectRule,
    VariantArg,
    VariantRule,
    Word,
    alternative,
    tail_words,
)
from kgen.spec.arguments import axis_facts
from kgen.spec.evaluate import target_fields
from kgen.spec.model import ArgumentSpec, Let, OpSpec, SelectSpec, TargetSpec, VariantSpec
from kgen.syntax.ast import Attr, Expr, Name, names_of, substitute, to_code, walk


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
                default=to_code(p.default) if p.default is not None else None,
                where=str(p.span),
            )
            for p in op.params
        ),
        arguments=tuple(_argument(a) for a in op.arguments),
        words=argument_words(op),
        lets=tuple((let.name, to_code(let.expr)) for let in _lets(op)),
        facts=tuple((fact.name, to_code(fact.expr)) for fact in op.facts),
        guards=tuple(Guard(to_code(g.check), g.because, str(g.span)) for g in op.guards),
        select=tuple(_select(op, rule) for rule in op.select),
        layouts={name: dataclasses.asdict(layout) for name, layout in op.layouts.items()},
        variants=variants,
        positions={axis: to_code(size) for axis, size in op.positions.items()},
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
    shapes = axis_facts(op.arguments, _given_names(op))
    tail = tail_words(rule_of(chosen)) if chosen is not None else ()
    return (*words, *(Word(name, "fact") for name in (*shapes, *derived)), *tail)


def _given_names(op: OpSpec) -> list[str]:
    """What the names of an operator's expressions may stand for, but for facts that shapes define."""
    known = ["target", *(p.name for p in op.params), *(let.name for let in op.lets)]
    known += [a.name for a in op.arguments if a.kind in ("int", "float")]
    return known + [fact.name for fact in op.facts]


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
    exprs = (*_expressions(op), *(let.expr for let in _lets(op)))
    parts = (part for expr in exprs for part in walk(expr))
    asked = {part.dotted: part.name for part in parts if isinstance(part, Attr) and part.base.name in records}
    if any(dtype in p.values for p in op.params if p.type == "dtype" for dtype in FP8):
        asked[FLAVOUR] = "fp8"
    if not asked:
        return {}
    known = {name: target_fields(targets[name]) for name in sorted(targets)}
    return {name: {dotted: known[name][asked[dotted]] for dotted in sorted(asked)} for name in known}


def _lets(op: OpSpec) -> Iterable[Let]:
    """The derived values that the expressions of a policy come down to, in dependency order."""
    lets = {let.name: let for let in op.lets}
    named = [name for expr in _expressions(op) for name in names_of(expr) if name in lets]
    used = set(needed(named, lambda name: names_of(lets[name].expr) & lets.keys()))
    return [let for let in op.lets if let.name in used]


def _expressions(op: OpSpec) -> Iterator[Expr]:
    """Those that dispatch evaluates, but for defaults, which know parameters alone."""
    yield from (fact.expr for fact in op.facts)
    yield from (guard.check for guard in op.guards)
    for rule in op.select:
        yield from (rule.policies or {"": rule.want}).values()
    for argument in op.arguments:
        yield from (axis.size for axis in argument.axes)
        yield from (expr for expr in (argument.workspace, argument.when) if expr is not None)
    yield from op.positions.values()


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


def _argument(argument: ArgumentSpec) -> ArgumentRule:
    when = argument.workspace or argument.when
    return ArgumentRule(
        name=argument.name,
        kind=argument.kind,
        dtype=argument.dtype,
        axes=tuple(AxisRule(axis.name, to_code(axis.size), axis.unit) for axis in _axes(argument)),
        cache=argument.cache,
        access=argument.access,
        optional=argument.optional,
        workspace=argument.workspace is not None,
        zeroed=argument.zeroed,
        when=to_code(when) if when is not None else None,
        because=argument.because,
        broadcast=argument.broadcast,
    )


def _select(op: OpSpec, rule: SelectSpec) -> SelectRule:
    policies = rule.policies or {}
    given = _given_names(op)
    taken = {*given, *axis_facts(op.arguments, given)}
    others = {name: Name(alternative(rule.param, name)) for name in policies if name not in taken}
    return SelectRule(
        param=rule.param,
        want=to_code(substitute(rule.want, others)),
        pick=rule.pick,
        where=str(rule.span),
        default=rule.default,
        policies={name: to_code(substitute(expr, others)) for name, expr in policies.items()},
        env=rule.env,
    )
