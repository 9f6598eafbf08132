"""The rules a combination must satisfy, and the record of each one it breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from kgen.diagnostics import Span
from kgen.manifest import Scalar
from kgen.spec.evaluate import evaluate_expr
from kgen.spec.model import TargetSpec
from kgen.variants.combination import Combination, Targets
from kgen.variants.model import Rejected, Variant
from kgen.variants.resources import excesses, plan_resources
from kgen.variants.scope import text_of
from kgen.variants.values import check_value


def settle(combination: Combination, targets: Targets) -> Variant | Rejected:
    """The variant, or the first rule of the spec that rejects the combination."""
    for broken in islice(broken_rules(combination, targets), 1):
        return broken
    c = combination
    plan = plan_resources(c.op, c.target, c.scope)
    return Variant(c.name, c.op, c.target, c.params, c.scope.lets(), c.simulated, plan)


def broken_rules(combination: Combination, targets: Targets) -> Iterator[Rejected]:
    """Every rule the combination breaks, in the order of the spec; nothing where it is accepted.

    A default that is no value of its parameter rejects too, and so does a target for which the
    operator has no template. Where the spec accepts, the limits of the target have the last word.
    """
    broken = False
    for rejected in _broken_by_spec(combination, targets):
        broken = True
        yield rejected
    if not broken:
        yield from _beyond_limits(combination)


def _broken_by_spec(combination: Combination, targets: Targets) -> Iterator[Rejected]:
    yield from _illegal_defaults(combination, targets)
    group = family_group(combination.target)
    if group not in combination.op.templates:
        because = f"{combination.op.name} has no template for {group} targets"
        figures = {"target.family": combination.target.family}
        yield _rejected(combination, f"templates: {group}", because, combination.op.span, figures)
    for rule in combination.op.requires:
        if not evaluate_expr(rule.check, combination.scope):
            span = rule.check.span
            yield _rejected(
                combination, text_of(span), rule.because, span, combination.scope.figures(rule.check)
            )


def _beyond_limits(combination: Combination) -> Iterator[Rejected]:
    """Resources a GPU does not have. Planned only for what the spec accepts: a rule may be there to
    keep a derived value from being computed where it makes no sense."""
    c = combination
    plan = plan_resources(c.op, c.target, c.scope)
    for excess in excesses(c.op, c.target, plan) if plan else ():
        yield _rejected(c, excess.rule, excess.because, excess.where, excess.figures)


def family_group(target: TargetSpec) -> str:
    """The group of templates a target uses: `cpu` or `gpu`."""
    return "cpu" if target.family == "cpu" else "gpu"


def _illegal_defaults(combination: Combination, targets: Targets) -> Iterator[Rejected]:
    for name in combination.defaulted:
        param = combination.op.param(name)
        value = combination.params[name]
        fault = check_value(param, value, combination.op, targets, param.span)
        if fault is not None and param.default is not None:
            rule = f"{name}: {text_of(param.default.span)}"
            yield _rejected(combination, rule, fault.message, param.default.span, {name: value})


def _rejected(
    combination: Combination, rule: str, because: str, where: Span, figures: Mapping[str, Scalar]
) -> Rejected:
    c = combination
    return Rejected(c.name, c.op.name, c.params, rule, because, where, figures)
