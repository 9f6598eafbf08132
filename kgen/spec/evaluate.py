"""Values of typed expressions: names of an operator, derived values, and faults with their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kgen.definitions import Derived
from kgen.diagnostics import KgenError, Span
from kgen.layout import attributes
from kgen.manifest import Code, Scalar
from kgen.semantics import EvaluationError, evaluate
from kgen.spec.model import Let, OpSpec, TargetSpec
from kgen.syntax.ast import Expr, names_of, to_code


def evaluate_expr(expr: Expr, env: Mapping[str, Any]) -> Scalar:
    """The value of `expr`. `env` gives every name, fields as dotted names (`target.wave`).

    Raises `KgenError` at the part of the expression that has no value.
    """
    code, spans = _compiled(expr)
    try:
        return evaluate(code, env)
    except EvaluationError as error:
        span = spans.get(id(error.code), expr.span)
        raise KgenError(replace(d, span=span) for d in error.diagnostics) from None


def _compiled(expr: Expr) -> tuple[Code, Mapping[int, Span]]:
    """The code of an expression and the span of each part of it, kept with the node: a rule is
    evaluated for every combination of a matrix."""
    kept = expr.__dict__.get("_compiled")
    if kept is None:
        spans: dict[int, Span] = {}
        kept = expr.__dict__["_compiled"] = to_code(expr, spans), spans
    code, spans = kept
    return code, spans


def target_fields(target: TargetSpec) -> Mapping[str, Scalar]:
    """What expressions may ask of a target, by field. What is said of no chip is 0, or as on a CPU."""
    chip = target.chip
    figures = chip.figures if chip else {}
    multiplied = {one.dtype for one in chip.instructions.values()} if chip else set()
    return {
        "name": target.name,
        "family": target.family,
        "compiler": target.compiler,
        "wave": target.wave,
        "vector_bits": target.vector_bits,
        "lds_bytes": target.lds_bytes,
        "registers": target.registers,
        "compute_units": figures.get("compute_units", 0),
        "max_threads": figures.get("max_threads", 0),
        "lds_banks": figures.get("lds_banks", 0),
        "f16_matrix": "f16" in multiplied,
        "bf16_matrix": "bf16" in multiplied,
        "tile_reads": chip is not None and chip.tile_reads,
        "crossed_reads": chip is not None and chip.crossed_reads,
        "box_copies": chip is not None and chip.box_copies,
        "group_products": chip is not None and chip.group_products,
        "bf16_rounding": target.numbers.bf16_rounding,
        "fp8": target.numbers.fp8,
        "fp8_conversion": target.numbers.fp8_conversion,
    }


class Lets(Derived):
    """The values of names: those given, fields as dotted names (`target.wave`), and derived values, each
    computed when it is first asked for."""

    def __init__(self, names: Mapping[str, Scalar], lets: Iterable[Let]) -> None:
        self._lets = {let.name: let for let in lets}
        super().__init__(names, self._lets)

    def _needs(self, name: str) -> Iterable[str]:
        return names_of(self._lets[name].expr)

    def _compute(self, name: str) -> Scalar:
        return evaluate_expr(self._lets[name].expr, self)


def environment(op: OpSpec, params: Mapping[str, Scalar], target: TargetSpec | None) -> dict[str, Scalar]:
    """Every name a rule, derived value or tag of `op` may use: parameters, fields, lets.

    `params` holds a value for each parameter. Raises `KgenError` where a let has no value.
    """
    return dict(Lets(given_names(op, params, target), op.lets))


def given_names(op: OpSpec, params: Mapping[str, Scalar], target: TargetSpec | None) -> dict[str, Scalar]:
    """The names of `environment` but for derived values, as far as parameters and target are given."""
    names: dict[str, Scalar] = dict(params)
    records: dict[str, Mapping[str, Scalar]] = {}
    if target is not None:
        names["target"] = target.name
        records["target"] = target_fields(target)
    for param in op.params:
        value = str(params.get(param.name))
        if param.type == "target" and target is not None:
            records[param.name] = records["target"]
        elif param.type == "layout" and value in op.layouts:
            records[param.name] = attributes(op.layouts[value])
    for record, fields in records.items():
        names.update({f"{record}.{field}": value for field, value in fields.items()})
    return names


Origins = Mapping[str, frozenset[str]]
"""Of each derived value, the names it is made of that are no derived values themselves."""


def origins_of(lets: Iterable[Let]) -> Origins:
    """The origins of derived values, given in dependency order."""
    found: dict[str, frozenset[str]] = {}
    for let in lets:
        found[let.name] = made_of(let.expr, found)
    return found


def made_of(expr: Expr, origins: Origins) -> frozenset[str]:
    """The names an expression uses, in place of each derived value its origins."""
    return frozenset().union(*(origins.get(name, {name}) for name in names_of(expr)))
