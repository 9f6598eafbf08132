"""Why a combination is not generated, and what a build makes of some values of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgen.diagnostics import KgenError
from kgen.manifest import Scalar
from kgen.spec.build import SIMULATED
from kgen.spec.evaluate import evaluate_expr
from kgen.spec.model import OpSpec, Require
from kgen.variants.combination import Targets, combine, target_param
from kgen.variants.matrix import check_params
from kgen.variants.model import Matrix, Rejected, Variant
from kgen.variants.rules import broken_rules
from kgen.variants.scope import Scope, text_of

if TYPE_CHECKING:
    from kgen.spec.catalog import Catalog

UNKNOWN_NAME = "K205"


@dataclass(frozen=True)
class Explanation:
    """What a build makes of `given`, values of some or all parameters of an operator.

    `accepted` and `rejected` are the cells of its matrix that have those values. `absent` holds
    each parameter whose value no cell has, with the values the build does have. `rules` are the
    rules of the operator that `given` breaks whatever the other parameters are.
    """

    build: str
    op: str
    given: Mapping[str, Scalar]
    accepted: tuple[Variant, ...]
    rejected: tuple[Rejected, ...]
    absent: Mapping[str, tuple[Scalar, ...]]
    rules: tuple[Rejected, ...]


def explain(matrix: Matrix, op: OpSpec, given: Mapping[str, Scalar], catalog: Catalog) -> Explanation:
    """What a build makes of these values. Raises KgenError (K303, K304) for a name or value that
    the operator does not have."""
    check_params(op, given, catalog.targets)
    accepted = [v for v in matrix.accepted if v.op.name == op.name]
    rejected = [r for r in matrix.rejected if r.op == op.name]
    cells: list[Variant | Rejected] = [*accepted, *rejected]
    absent = {}
    for name, value in given.items():
        values = tuple(dict.fromkeys(cell.params[name] for cell in cells))
        if value not in values:
            absent[name] = values
    return Explanation(
        build=matrix.build,
        op=op.name,
        given=dict(given),
        accepted=tuple(v for v in accepted if _has(v.params, given)),
        rejected=tuple(r for r in rejected if _has(r.params, given)),
        absent=absent,
        rules=why_rejected(op, given, catalog),
    )


def why_rejected(op: OpSpec, given: Mapping[str, Scalar], catalog: Catalog) -> tuple[Rejected, ...]:
    """Every rule that `given` breaks, in the order of the spec; empty where nothing is broken.

    With values for all parameters that have no default, the answer is complete; with fewer, it
    is what these values break whatever the others are. Raises KgenError (K303, K304).
    """
    check_params(op, given, catalog.targets)
    if all(p.name in given or p.default is not None for p in op.params):
        return tuple(broken_rules(combine(op, given, catalog.targets), catalog.targets))
    scope = _partial_scope(op, given, catalog.targets)
    return tuple(
        Rejected(
            name=op.name,
            op=op.name,
            params=dict(given),
            rule=text_of(rule.check.span),
            because=rule.because,
            where=rule.check.span,
            figures=scope.figures(rule.check),
        )
        for rule in op.requires
        if _surely_broken(rule, scope)
    )


def _partial_scope(op: OpSpec, given: Mapping[str, Scalar], targets: Targets) -> Scope:
    arch = given.get(target_param(op).name)
    target = targets[str(arch).removeprefix(SIMULATED)] if arch is not None else None
    return Scope(op, given, target)


def _surely_broken(rule: Require, scope: Scope) -> bool:
    """Whether a rule is false and what is not known yet plays no part in it."""
    try:
        return evaluate_expr(rule.check, scope) is False
    except KgenError as error:
        if all(d.code == UNKNOWN_NAME for d in error.diagnostics):
            return False
        raise


def _has(params: Mapping[str, Scalar], given: Mapping[str, Scalar]) -> bool:
    return all(params[name] == value for name, value in given.items())
