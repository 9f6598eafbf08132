"""Small services over coded expressions and policies, shared by binding and selection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from kgen.definitions import Derived, needed
from kgen.diagnostics import Collector, Diagnostic, KgenError
from kgen.layout import Layout, TensorOrder
from kgen.manifest import Code, Guard, ParamRule, Policy, Scalar, alternative
from kgen.semantics import EvaluationError, evaluate

_found: dict[int, tuple[Code, frozenset[str]]] = {}
"""Names by the identity of their code, which is kept alive; policies are few."""


def names_in(code: Code) -> frozenset[str]:
    """The names an expression uses."""
    held = _found.get(id(code))
    if held is None:
        held = _found[id(code)] = (code, frozenset(_names(code)))
    return held[1]


def _names(code: Any) -> Iterator[str]:
    if not isinstance(code, list):
        return
    if len(code) == 2 and code[0] == "name" and isinstance(code[1], str):
        yield code[1]
        return
    for part in code:
        yield from _names(part)


def inputs(code: Code, definitions: Mapping[str, Code]) -> frozenset[str]:
    """The names an expression comes down to where those of `definitions` stand for what they are made of."""
    names = names_in(code)
    if names.isdisjoint(definitions):
        return names
    used = needed(names, lambda name: names_in(definitions[name]) if name in definitions else ())
    return frozenset(used) - definitions.keys()


def known(
    code: Code, names: Mapping[str, Any], definitions: Mapping[str, Code] = MappingProxyType({})
) -> bool:
    """Whether `names` gives every name of `code`, or what those it does not give are made of."""
    used = names_in(code)
    return used <= names.keys() or inputs(code, definitions) <= names.keys()


class Defined(Derived):
    """Names, and values of definitions over them, each computed when it is first asked for."""

    def __init__(self, names: Mapping[str, Any], definitions: Mapping[str, Code]) -> None:
        super().__init__(names, definitions)
        self._codes = definitions

    def _needs(self, name: str) -> Iterable[str]:
        return names_in(self._codes[name])

    def _compute(self, name: str) -> Scalar:
        return evaluate(self._codes[name], self)


def definitions(policy: Policy) -> Mapping[str, Code]:
    """What rules may name beside facts: derived values, and the policies of all rules."""
    policies = {
        alternative(rule.param, name): code for rule in policy.select for name, code in rule.policies.items()
    }
    return {**dict(policy.lets), **policies}


def derive(names: dict[str, Scalar], policy: Policy) -> None:
    """Add every derived value whose names are all known, in order. One without a value stays unknown: no
    variant has these parameters, and selection says why."""
    for name, code in policy.lets:
        if name not in names and known(code, names):
            with suppress(EvaluationError):
                names[name] = evaluate(code, names)


def extend(names: dict[str, Scalar], facts: Iterable[tuple[str, Code]]) -> None:
    """Add every derived fact whose names are all known, in order."""
    for name, code in facts:
        if name not in names and known(code, names):
            names[name] = evaluate(code, names)


def check_guards(policy: Policy, names: Mapping[str, Scalar], done: set[str]) -> None:
    """Check the guards whose names are known and that are not in `done`; raises all that fail."""
    found = Collector()
    for guard in policy.guards:
        if guard.where in done or not known(guard.check, names):
            continue
        done.add(guard.where)
        if not evaluate(guard.check, names):
            found.extend([_broken(policy, guard, names)])
    found.check()


def _broken(policy: Policy, guard: Guard, names: Mapping[str, Scalar]) -> Diagnostic:
    asked = sorted(inputs(guard.check, dict(policy.lets)))
    values = ", ".join(f"{name} = {names[name]}" for name in asked)
    return Diagnostic(
        "K515", f"{policy.op}: {guard.because} ({values})", notes=(f"the guard at {guard.where}",)
    )


def param(policy: Policy, name: str) -> ParamRule | None:
    """The parameter of that name, or None where the operator has none."""
    return next((p for p in policy.params if p.name == name), None)


def variant_param(policy: Policy) -> ParamRule | None:
    """The parameter that chooses a mask and score; None where the operator has none."""
    return next((p for p in policy.params if p.type == "variant"), None)


def free_params(policy: Policy) -> tuple[str, ...]:
    """Parameters a rule selects; all others come from the arguments."""
    return tuple(rule.param for rule in policy.select)


def layout_of(policy: Policy, name: str) -> Layout:
    """The layout of that name. The caller has checked that it exists."""
    data = policy.layouts[name]
    return Layout(
        name=data["name"],
        k=_order(data["k"]),
        v=_order(data["v"]),
        doc=data.get("doc", ""),
        because=data.get("because", ""),
        also=tuple(data.get("also", ())),
    )


def _order(data: Mapping[str, Any] | None) -> TensorOrder | None:
    return None if data is None else TensorOrder(tuple(data["axes"]), data.get("split"))


def merged(*faults: KgenError) -> KgenError:
    """One error with the diagnostics of all."""
    return KgenError([d for fault in faults for d in fault.diagnostics])
