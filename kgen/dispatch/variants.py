"""Masks and scores in a call: which there are, and their arguments as arguments of the operator.

An operator with a chosen variant is an operator like any other: with more tensors and scalars, and a
policy that has rules and words for them at its end. So binding, plans and launching know nothing of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index as operator_index
from typing import Any

import torch

from kgen.diagnostics import Collector, KgenError, choice_hint
from kgen.dispatch import codes
from kgen.dispatch.errors import fault
from kgen.dispatch.operators import Operator
from kgen.manifest import ArgumentRule, AxisRule, Guard, Policy, Scalar, VariantArg, VariantRule, tail_words
from kgen.semantics import evaluate

INT_LIMIT = 2**31
"""Whole-number arguments stay below it in size, so that positions plus them never overflow."""


def find_rule(policy: Policy, built: Mapping[str, VariantRule], name: str | None) -> VariantRule | None:
    """The variant of that name, of the specs or of the builds; None where the operator has none.

    No name means the operator's default. Raises KgenError (K516) for a name that is not known.
    """
    holder = codes.variant_param(policy)
    if holder is None:
        return None
    if name is None:
        name = str(evaluate(holder.default, {})) if holder.default is not None else ""
    known = {**built, **{rule.name: rule for rule in policy.variants}}
    if name not in known:
        hint = choice_hint(name, list(known))
        raise fault("K516", f"{policy.op}: no variant is named '{name}'", hint)
    return known[name]


def operator_with(operator: Operator, rule: VariantRule) -> Operator:
    """The operator whose tensors and scalars end with the arguments of the variant."""
    arrays = tuple(arg.name for arg in rule.args if arg.axis)
    singles = {arg.name: arg.kind for arg in rule.args if not arg.axis}
    return replace(
        operator,
        tensors=(*operator.tensors, *arrays),
        scalars={**operator.scalars, **singles},
        rule=rule,
    )


def policy_with(policy: Policy, rule: VariantRule) -> Policy:
    """The policy with the arguments, guards and words of the variant."""
    holder = codes.variant_param(policy)
    params = [
        replace(p, values=(*dict.fromkeys([*p.values, rule.name]),)) if p is holder else p
        for p in policy.params
    ]
    arrays = [arg for arg in rule.args if arg.axis == "kv"]
    return replace(
        policy,
        params=tuple(params),
        arguments=(*policy.arguments, *(_argument(policy, arg) for arg in rule.args)),
        guards=(*policy.guards, *(_long_enough(policy, arg, rule) for arg in arrays)),
        words=(*policy.words, *tail_words(rule)),
    )


def _argument(policy: Policy, arg: VariantArg) -> ArgumentRule:
    if not arg.axis:
        return ArgumentRule(arg.name, arg.kind)
    dtype = {"int": "i32", "float": "f32"}[arg.kind]
    if arg.axis != "kv":
        size = policy.positions[arg.axis]
        return ArgumentRule(arg.name, "tensor", dtype, (AxisRule(arg.axis, size, unit=True),))
    rows = AxisRule("seq", policy.positions["batch"])
    return ArgumentRule(arg.name, "tensor", dtype, (rows, AxisRule("kv", ["name", _extent(arg)], unit=True)))


def _extent(arg: VariantArg) -> str:
    """The fact that says how many keys an array has values for."""
    return f"length of {arg.name}"


def _long_enough(policy: Policy, arg: VariantArg, rule: VariantRule) -> Guard:
    check = [">=", ["name", _extent(arg)], policy.positions["kv"]]
    return Guard(check, f"{arg.name} needs a value for every key", f"{rule.where} ({arg.name})")


def ordered(op: str, rule: VariantRule, given: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The arrays and the single values of a call, in the order of the variant's arguments.

    Raises KgenError for names the variant does not have (K516), for what is missing or of the wrong kind
    (K510), and for single values that break a guard (K515); shapes and dtypes are left to binding.
    """
    arrays: list[Any] = []
    singles: dict[str, Scalar] = {}
    for arg in rule.args:
        value = given.get(arg.name)
        if value is None:
            raise _misnamed(op, rule, given)
        if arg.axis:
            arrays.append(_array(op, arg, value, rule))
        else:
            singles[arg.name] = _single(op, arg, value, rule)
    if len(given) > len(rule.args):
        raise _misnamed(op, rule, given)
    for guard in rule.guards:
        if not evaluate(guard.check, singles):
            values = ", ".join(f"{n} = {singles[n]}" for n in sorted(codes.names_in(guard.check)))
            raise fault("K515", f"{op}: {guard.because} ({values})", notes=(f"the guard at {guard.where}",))
    return arrays, list(singles.values())


def _misnamed(op: str, rule: VariantRule, given: Mapping[str, Any]) -> KgenError:
    """Every name that a call lacks, or has too many."""
    found, declared = Collector(), _declared(rule)
    for name in given.keys() - {arg.name for arg in rule.args}:
        found.add("K516", f"{op}: {rule.name} takes no argument '{name}'", hint=declared)
    for arg in rule.args:
        if given.get(arg.name) is None:
            found.add("K510", f"{op}: the variant {rule.name} needs {arg.name}", hint=declared)
    return KgenError(found.diagnostics)


def _declared(rule: VariantRule) -> str:
    return f"arguments of {rule.name}: {', '.join(map(str, rule.args)) or 'none'}"


def _array(op: str, arg: VariantArg, value: Any, rule: VariantRule) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    raise _wrong(op, arg, f"a tensor, one value for each {arg.axis}", value, rule)


def _single(op: str, arg: VariantArg, value: Any, rule: VariantRule) -> Scalar:
    if type(value) is float and arg.kind == "float":
        return value
    wanted = "an integer" if arg.kind == "int" else "a number"
    try:
        if isinstance(value, bool | str):
            raise TypeError
        number: Scalar = operator_index(value) if arg.kind == "int" else float(value)
    except (TypeError, ValueError, RuntimeError):
        raise _wrong(op, arg, wanted, value, rule) from None
    if isinstance(number, int) and not -INT_LIMIT <= number < INT_LIMIT:
        raise fault("K510", f"{op}: {arg.name} is {number}; it must fit 32 bits", _declared(rule))
    return number


def _wrong(op: str, arg: VariantArg, wanted: str, value: Any, rule: VariantRule) -> KgenError:
    message = f"{op}: {arg.name} must be {wanted}, found {type(value).__name__}"
    return fault("K510", message, _declared(rule))


# ---- Through torch's dispatcher, whose schemas know no mapping ------------------------------------------

PACKED = (
    "Tensor[]? variant_tensors=None, SymInt[]? variant_ints=None, float[]? variant_floats=None, "
    "str[]? variant_names=None"
)
"""Arguments of a variant as a schema has them; the names are those of the tensors, ints and floats."""

Packed = tuple[list[Any] | None, list[Any] | None, list[Any] | None, list[str] | None]


def pack(given: Mapping[str, Any] | None) -> Packed:
    """A variant's arguments as PACKED takes them."""
    if not given:
        return None, None, None, None
    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    floats = {name: value for name, value in given.items() if isinstance(value, float)}
    ints = {name: v for name, v in given.items() if name not in tensors and name not in floats}
    return list(tensors.values()), list(ints.values()), list(floats.values()), [*tensors, *ints, *floats]


def unpack(
    tensors: Sequence[Any] | None = None,
    ints: Sequence[Any] | None = None,
    floats: Sequence[Any] | None = None,
    names: Sequence[str] | None = None,
) -> Mapping[str, Any]:
    """The inverse of `pack`."""
    return dict(zip(names or (), [*(tensors or ()), *(ints or ()), *(floats or ())], strict=True))
