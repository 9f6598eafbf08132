"""Selection: which variant serves a call, and why.

A parameter without a rule is fixed by the arguments. A parameter with one is free, and gets its
value from, in this order: the caller's keyword, the rule's environment variable, a policy that the
caller names, the tuning table, the rule's policy. What a caller or the environment insists on is met
exactly or is an error; what a policy wishes is served by what is built. `explain` keeps every step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kgen import env
from kgen.diagnostics import choice_hint
from kgen.dispatch import codes
from kgen.dispatch.errors import fault
from kgen.dispatch.model import Bound, Built, Choice, Names, Selection
from kgen.manifest import Code, Policy, Scalar, SelectRule
from kgen.semantics import evaluate
from kgen.tuning import TunedClass

TUNED = "tuning table"
"""Who wished, where a tuning table did."""


@dataclass(frozen=True)
class Wish:
    """A value for a free parameter before it is known what is built. `firm`: met or an error."""

    value: Scalar
    source: str
    firm: bool


def select(
    policy: Policy,
    bound: Bound,
    kernels: Sequence[Built],
    *,
    jit: bool,
    tuning: Sequence[TunedClass] = (),
    usable: Callable[[TunedClass, Names], bool] = lambda tuned, names: True,
    refused: Mapping[str, Collection[Scalar]] = MappingProxyType({}),
) -> Selection:
    """The variant for a bound call among `kernels` (all of one arch, with its fixed parameters).

    With `jit` the result may be a variant that is not built (`kernel` is None); without it a
    policy's wish falls back to the nearest built value. `tuning`: the classes of tuning tables whose exact
    values the call has; `usable` says whether what one wants can be had. `refused`: values of
    parameters that serve in passes, with which no variant can be built. Raises KgenError (K51x, K520).
    """
    return _Selector(policy, bound, kernels, jit, tuning, usable, refused).run()


class _Selector:
    def __init__(
        self,
        policy: Policy,
        bound: Bound,
        kernels: Sequence[Built],
        jit: bool,
        tuning: Sequence[TunedClass],
        usable: Callable[[TunedClass, Names], bool],
        refused: Mapping[str, Collection[Scalar]],
    ) -> None:
        self.policy = policy
        self.bound = bound
        self.offered = tuple(kernels)
        self.kernels = list(kernels)
        self.jit = jit
        self.names: dict[str, Scalar] = dict(bound.names)
        self.choices: list[Choice] = []
        self.tuning = tuning
        self.usable = usable
        self.refused = refused
        self.tuned: TunedClass | None = None
        self.examined: list[Code] = []
        self.guards: set[str] = set()

    def run(self) -> Selection:
        self._learn()
        self.tuned = self._tuned()
        firm = {rule.param: wish for rule in self.policy.select if (wish := self._firm(rule))}
        for name, wish in firm.items():
            self.kernels = [k for k in self.kernels if k.entry.params.get(name) == wish.value]
        for rule in self.policy.select:
            choice = self._choose(rule, firm.get(rule.param) or self._wish(rule))
            self.choices.append(choice)
            self.names[rule.param] = choice.value
            self.kernels = [k for k in self.kernels if k.entry.params.get(rule.param) == choice.value]
            self._learn()
        return Selection(
            op=self.policy.op,
            names=self.names,
            params={p.name: self.names[p.name] for p in self.policy.params},
            choices=tuple(self.choices),
            kernel=self.kernels[0] if self.kernels else None,
            candidates=tuple(k.entry.name for k in self.offered),
            tuned=self.tuned,
            examined=tuple(self.examined),
        )

    def _tuned(self) -> TunedClass | None:
        """The class of the tuning table that decides; None where none does, or what it wants is not to be
        had."""
        for one in self.tuning:
            self.examined.append(one.within)
            if evaluate(one.within, self.names):
                return one if self.usable(one, self.names) else None
        return None

    def _learn(self) -> None:
        """Check the guards and derive what is made of names that are known by now."""
        codes.derive(self.names, self.policy)
        codes.check_guards(self.policy, self.names, self.guards)
        codes.extend(self.names, self.policy.facts)
        codes.check_guards(self.policy, self.names, self.guards)

    def _firm(self, rule: SelectRule) -> Wish | None:
        if rule.param in self.bound.requested:
            return Wish(self.bound.requested[rule.param], "argument", firm=True)
        value = environment(rule.env)
        return None if value is None else Wish(value, rule.env, firm=True)

    def _wish(self, rule: SelectRule) -> Wish:
        if self.tuned is not None and rule.param in self.tuned.use and not self._is_named(rule):
            return Wish(self.tuned.use[rule.param], TUNED, firm=False)
        name, code = self._rule_policy(rule)
        names = codes.Defined(self.names, codes.definitions(self.policy))
        return Wish(evaluate(code, names), f"policy {name}" if name else "rule", firm=False)

    def _is_named(self, rule: SelectRule) -> bool:
        """Whether the call names one of the rule's policies, and so the rule."""
        return bool(rule.policies) and self.bound.policy is not None

    def _rule_policy(self, rule: SelectRule) -> tuple[str, Code]:
        """The alternative the call names, else the default. One rule has alternatives at most."""
        name = self.bound.policy
        if name is None or not rule.policies:
            return rule.default, rule.policies.get(rule.default, rule.want)
        if name not in rule.policies:
            hint = choice_hint(name, sorted(rule.policies))
            raise fault("K516", f"{self.policy.op}: no policy is named '{name}'", hint)
        return name, rule.policies[name]

    def _choose(self, rule: SelectRule, wish: Wish) -> Choice:
        built = _values(self.kernels, rule.param)
        value, why = self._serve(rule, wish, built)
        where = self.tuned.where if self.tuned is not None and wish.source == TUNED else rule.where
        return Choice(rule.param, value, wish.source, wish.value, rule.pick, built, where, why)

    def _serve(self, rule: SelectRule, wish: Wish, built: Sequence[Scalar]) -> tuple[Scalar, str]:
        want = wish.value
        if wish.firm or rule.pick == "exact":
            if want in built or self.jit or wish.firm or not built:
                return want, _state(want in built)
            near = nearest_value(want, built)
            return near, f"{want} is not built and building is off; {near} is the nearest built"
        if rule.pick == "nearest":
            if not built:
                return self._legal(rule, want), "nothing fits yet"
            return nearest_value(want, built), "nearest built"
        return self._at_least(rule, want, built)

    def _at_least(self, rule: SelectRule, want: Scalar, built: Sequence[Scalar]) -> tuple[Scalar, str]:
        enough = [value for value in built if _number(value) >= _number(want)]
        if enough:
            return min(enough, key=_number), "smallest built that is large enough"
        legal = self._legal(rule, want)
        if self.jit or not built:
            if _number(legal) < _number(want):
                return legal, "no larger one can be had; it is used in passes"
            return legal, _state(legal in built)
        return max(built, key=_number), f"none built is {want} or more; the largest is used in passes"

    def _legal(self, rule: SelectRule, want: Scalar) -> Scalar:
        """The smallest legal value >= want, else the largest legal one, of those that are not refused."""
        param = codes.param(self.policy, rule.param)
        refused = self.refused.get(rule.param, ())
        values = [value for value in (param.values if param else ()) if value not in refused]
        if not values:
            return want
        return min(
            (v for v in values if _number(v) >= _number(want)),
            key=_number,
            default=max(values, key=_number),
        )


def environment(name: str) -> Scalar | None:
    """The value of a rule's environment variable; None where it has none or it is not set."""
    row = next((row for row in env.VARIABLES if row.name == name), None)
    value = row.read() if row else None
    return value if isinstance(value, bool | int | float | str) else None


def fixed_names(policy: Policy) -> tuple[str, ...]:
    """Parameters that arguments and host fix: those without a rule."""
    free = codes.free_params(policy)
    return tuple(p.name for p in policy.params if p.name not in free)


def complete(policy: Policy, names: Names, arch: str) -> Names:
    """`names` with the arch and the defaults of fixed parameters filled in.

    Raises KgenError (K510) for a fixed parameter nothing gives.
    """
    full: dict[str, Scalar] = {**names, "arch": arch}
    for rule in policy.params:
        if rule.name in full or rule.name in codes.free_params(policy):
            continue
        if rule.default is None or not codes.known(rule.default, full):
            hint = f"{rule.name} is one of: {', '.join(map(str, rule.values))}" if rule.values else None
            raise fault("K510", f"{policy.op}: nothing says what {rule.name} is", hint)
        full[rule.name] = evaluate(rule.default, full)
    return full


def on_target(policy: Policy, names: Names, arch: str) -> Names:
    """`names` with another arch, and with what the policy asks of it; the simulator stands for its target."""
    return {**names, "arch": arch, **policy.targets.get(arch.removeprefix("sim:"), {})}


def nearest_value(want: Scalar, values: Iterable[Scalar]) -> Scalar:
    """The value nearest to `want`; the smaller of two equally near."""
    return min(values, key=lambda value: (abs(_number(value) - _number(want)), _number(value)))


def _values(kernels: Iterable[Built], param: str) -> tuple[Scalar, ...]:
    return tuple(sorted({k.entry.params[param] for k in kernels if param in k.entry.params}, key=_number))


def _number(value: Scalar) -> float:
    return float(value)


def _state(built: bool) -> str:
    return "built" if built else "not built"
