"""One combination of parameters, completed and named; accepted or not is the rules' affair."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kgen.diagnostics import Diagnostic, KgenError
from kgen.manifest import Scalar
from kgen.spec.build import SIMULATED
from kgen.spec.evaluate import evaluate_expr
from kgen.spec.model import OpSpec, Param, TargetSpec
from kgen.syntax.ast import names_of
from kgen.variants.scope import Scope

Targets = Mapping[str, TargetSpec]

_NO_WORD = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True)
class Combination:
    """`params` holds every parameter in spec order; `defaulted` names those the spec filled in."""

    name: str
    op: OpSpec
    target: TargetSpec
    params: Mapping[str, Scalar]
    defaulted: tuple[str, ...]
    scope: Scope
    simulated: bool


def combine(op: OpSpec, given: Mapping[str, Scalar], targets: Targets) -> Combination:
    """Complete and name a combination. Raises K305 where a parameter has no value, or what a
    default expression raises."""
    arch = str(given[target_param(op).name])
    target = targets[arch.removeprefix(SIMULATED)]
    scope = Scope(op, _with_defaults(op, given, target), target)
    params = {p.name: scope[p.name] for p in op.params}
    defaulted = tuple(p.name for p in op.params if p.name not in given)
    name = variant_name(op, params, scope)
    return Combination(name, op, target, params, defaulted, scope, arch.startswith(SIMULATED))


def target_param(op: OpSpec) -> Param:
    """The parameter that holds the target. Raises K306 where the op has none."""
    for param in op.params:
        if param.type == "target":
            return param
    raise KgenError(Diagnostic("K306", f"{op.name} has no parameter of type target", op.span))


def variant_name(op: OpSpec, params: Mapping[str, Scalar], scope: Mapping[str, Scalar]) -> str:
    """`paged_attention_gfx936_f16_d128_b64_bhsd_r8_p512`: the op, then the tags in spec order."""
    told = (p for p in op.params if p.tag and not (p.omit is not None and evaluate_expr(p.omit, scope)))
    tags = (_NO_WORD.sub("_", param.spelt(params[param.name])).strip("_") for param in told)
    return "_".join((op.name, *tags))


def no_value(op: OpSpec, param: Param) -> Diagnostic:
    """The complaint that nothing gives a parameter a value."""
    message = f"nothing gives {param.name} of {op.name} a value"
    return Diagnostic(
        "K305", message, param.span, f"list '{param.name}' among the axes, or give it a default"
    )


def _with_defaults(op: OpSpec, given: Mapping[str, Scalar], target: TargetSpec) -> Mapping[str, Scalar]:
    """The values given and the defaults of the rest; a default may build on other parameters."""
    filled = dict(given)
    pending = [p for p in op.params if p.name not in filled]
    while pending:
        scope = Scope(op, filled, target)
        waiting = {p.name for p in pending}
        ready = [p for p in pending if p.default is not None and not names_of(p.default) & waiting]
        if not ready:
            raise KgenError([no_value(op, p) for p in pending])
        for param in ready:
            if param.default is not None:
                filled[param.name] = evaluate_expr(param.default, scope)
        pending = [p for p in pending if p.name not in filled]
    return filled
