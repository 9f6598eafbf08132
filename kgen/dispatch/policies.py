"""The policies of a process: one of each operator, and what a variant's arguments make of it."""

from __future__ import annotations

import threading

from kgen.dispatch.model import Compiler
from kgen.dispatch.operators import Operator
from kgen.dispatch.registry import Registry
from kgen.dispatch.variants import find_rule, policy_with
from kgen.manifest import Policy, VariantRule


class Policies:
    """Policies by operator, made at first use."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._policies: dict[str, Policy] = {}
        self._extended: dict[tuple[str, str], tuple[VariantRule, Policy]] = {}
        self._lock = threading.RLock()

    def policy(self, op: str) -> Policy:
        """The policy of an operator."""
        with self._lock:
            if op not in self._policies:
                self._policies[op] = self._compiler.policy(op)
            return self._policies[op]

    def policy_of(self, operator: Operator) -> Policy:
        """The policy of an operator, with the arguments of its variant."""
        policy, rule = self.policy(operator.name), operator.rule
        if rule is None:
            return policy
        with self._lock:
            held = self._extended.get((operator.name, rule.name))
            if held is None or held[0] is not rule:
                held = self._extended[operator.name, rule.name] = rule, policy_with(policy, rule)
            return held[1]

    def rule(self, op: str, variant: str | None, registry: Registry) -> VariantRule | None:
        """The mask and score a call names, or the default one; None where the operator has none.

        Raises KgenError (K516) where there is none of that name, K524 where there are two."""
        policy = self.policy(op)
        shipped = variant is None or any(rule.name == variant for rule in policy.variants)
        return find_rule(policy, {} if shipped else registry.rules(op), variant)
