"""Small services over coded expressions and policies, shared by binding and selection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kgen.diagnostics import Collector, Diagnostic, KgenError
from kgen.layout import Layout, TensorOrder
from kgen.manifest import Code, Guard, ParamRule, Policy, Scalar
from kgen.semantics import evaluate

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


def known(code: Code, names: Mapping[str, Any]) -> bool:
    """Whether `names` gives every name of `code`."""
    return names_in(code) <= names.keys()


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
            found.extend([_broken(policy.op, guard, names)])
    found.check()


def _broken(op: str, guard: Guard, names: Mapping[str, Scalar]) -> Diagnostic:
    values = ", ".join(f"{name} = {names[name]}" for name in sorted(names_in(guard.check)))
    return Diagnostic("K515", f"{op}: {guard.because} ({values})", notes=(f"the guard at {guard.where}",))


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
