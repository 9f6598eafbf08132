"""The `select` section: how a call chooses the parameters it does not fix."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kgen.diagnostics import Collector, choice_hint
from kgen.spec.check import check_expr
from kgen.spec.model import Param, SelectSpec
from kgen.spec.reader import Fields, check_name, expression
from kgen.spec.scope import OPEN, Scope, Symbol
from kgen.spec.types import BAD, Type
from kgen.syntax.ast import Bool, Expr
from kgen.syntax.yaml import Entry

PICKS = ("at_least", "nearest", "exact")
_ENV = re.compile(r"[A-Z][A-Z0-9_]*\Z")


def read_select(
    entry: Entry, params: Mapping[str, Param], scope: Scope, found: Collector
) -> SelectSpec | None:
    """One rule: either `want`, or `policies` by name with a `default`."""
    name = entry.key.text
    if name not in params and OPEN not in scope:
        found.add("K205", f"unknown parameter '{name}'", entry.key.span, choice_hint(name, list(params)))
    fields = Fields(
        entry.value,
        "a selection rule",
        found,
        required=("pick",),
        optional=("want", "policies", "default", "env"),
        at=entry.key.span,
    )
    pick = fields.choice("pick", PICKS, "exact")
    if name in params and pick != "exact" and params[name].type not in ("int", "float"):
        found.add(
            "K204",
            f"'{pick}' needs a number; '{name}' is of type {params[name].type}",
            fields.where("pick"),
            "pick: exact",
        )
    env = fields.text("env")
    if env and not _ENV.match(env):
        found.add(
            "K203",
            f"'{env[:40]}' is no name of an environment variable",
            fields.where("env"),
            "use upper case",
        )
    wanted = scope[name].type if name in scope else None
    policies, default = _policies(fields, scope, wanted)
    want = policies.get(default) if policies else fields.expr("want")
    if want is not None and not policies:
        check_expr(want, scope, found, wanted)
    if not fields.ok or name not in params:
        return None
    want = want if want is not None else Bool(False, span=entry.key.span)
    return SelectSpec(name, want, pick, entry.key.span, default, policies or None, env)


def _policies(fields: Fields, scope: Scope, wanted: Type | None) -> tuple[dict[str, Expr], str]:
    """The alternatives, each a value of the type `wanted`. One may name those before it, where the name means
    nothing else."""
    found = fields.found
    if ("want" in fields) == ("policies" in fields) and fields.ok:
        found.add("K202", "a selection rule needs either 'want' or 'policies'", fields.span)
    policies: dict[str, Expr] = {}
    known = dict(scope)
    entries = fields.entries("policies")
    for entry in entries:
        check_name(entry.key, "a policy", found)
        expr = expression(entry.value, found)
        symbol = Symbol(BAD, "policy")
        if expr is not None:
            policies[entry.key.text] = expr
            checked = check_expr(expr, known, found, wanted)
            symbol = Symbol(checked.type, "policy", checked.value)
        known.setdefault(entry.key.text, symbol)
    default = fields.text("default")
    if "policies" in fields and "default" not in fields:
        found.add("K202", "'policies' need the key 'default'", fields.where("policies"))
    names = [entry.key.text for entry in entries]
    if "default" in fields and default and default not in names:
        found.add(
            "K204", f"'{default[:40]}' is no policy", fields.where("default"), choice_hint(default, names)
        )
    return policies, default
