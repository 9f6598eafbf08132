"""How a call can reach each variant of a build: the proof that no variant is built in vain.

The selection of dispatch itself decides, over the policy compiled from the spec: first with facts
alone, then with the free parameters asked for by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

from kgen.diagnostics import KgenError
from kgen.dispatch.codes import definitions, free_params, names_in
from kgen.dispatch.model import Bound, Built
from kgen.dispatch.select import select
from kgen.manifest import Code, Entry, Policy, Scalar
from kgen.variants.model import Variant
from kgen.variants.policy import compile_policy

MAX_VARIED = 2
"""Facts moved away from 1 at a time."""


def reachable_by(variants: Sequence[Variant]) -> Mapping[str, str]:
    """How each variant is reached, by name: `policy with num_heads = 8`, or `explicit argument
    partition_size = 512`; a variant that nothing reaches is absent."""
    ways: dict[str, str] = {}
    alike: dict[tuple[object, ...], Sequence[str | None]] = {}
    for group in _groups(variants):
        target = group[0].target
        policy = compile_policy(group[0].op, {target.name: target})
        what = _what_matters(policy, group)
        if what not in alike:
            alike[what] = _ways(policy, group)
        found = zip(group, alike[what], strict=True)
        ways.update({variant.name: way for variant, way in found if way is not None})
    return ways


def _ways(policy: Policy, group: Sequence[Variant]) -> Sequence[str | None]:
    """How each variant of a group is reached."""
    kernels = [_built(variant) for variant in group]
    named = dict(_by_policy(policy, group, kernels))
    for variant in group:
        if variant.name not in named and _by_argument(policy, variant, kernels):
            asked = zip(free_params(policy), _free(policy, variant), strict=True)
            named[variant.name] = "explicit argument " + ", ".join(
                f"{name} = {value}" for name, value in asked
            )
    return [named.get(variant.name) for variant in group]


def _free(policy: Policy, variant: Variant) -> tuple[Scalar, ...]:
    return tuple(variant.params[name] for name in free_params(policy))


def _what_matters(policy: Policy, group: Sequence[Variant]) -> tuple[object, ...]:
    """What selection inside a group can depend on: groups alike in it are reached alike."""
    used = {name for code in _codes(policy) for name in names_in(code)} - set(free_params(policy))
    fixed = tuple((name, value) for name, value in group[0].params.items() if name in used)
    figures = tuple(sorted(_figures(policy).items()))
    return (policy.op, fixed, figures, tuple(_free(policy, variant) for variant in group))


def _figures(policy: Policy) -> Mapping[str, Scalar]:
    """What the policy asks of the one target it was compiled for."""
    return next(iter(policy.targets.values()), {})


def _groups(variants: Sequence[Variant]) -> list[list[Variant]]:
    """Variants between which only free parameters differ: those one call chooses among."""
    groups: dict[tuple[object, ...], list[Variant]] = {}
    for variant in variants:
        free = {rule.param for rule in variant.op.select}
        fixed = tuple(value for name, value in variant.params.items() if name not in free)
        groups.setdefault((variant.op.name, *fixed), []).append(variant)
    return list(groups.values())


def _built(variant: Variant) -> Built:
    entry = Entry(
        name=variant.name,
        op=variant.op.name,
        key=variant.name,
        params=variant.params,
        target=variant.target.name,
        kind=variant.target.family,
        artefact="",
        symbol=variant.name,
        sha256="",
    )
    return Built(entry, Path(), "")


def _by_policy(policy: Policy, group: Sequence[Variant], kernels: Sequence[Built]) -> Mapping[str, str]:
    ways: dict[str, str] = {}
    for facts in _facts(policy):
        if len(ways) == len(group):
            break
        chosen = _choose(policy, group[0], facts, {}, kernels)
        if chosen is not None and chosen not in ways:
            moved = ", ".join(f"{name} = {value}" for name, value in facts.items() if value != 1)
            ways[chosen] = f"policy with {moved or 'any facts'}"
    return ways


def _by_argument(policy: Policy, variant: Variant, kernels: Sequence[Built]) -> bool:
    asked = {name: variant.params[name] for name in free_params(policy)}
    facts = next(_facts(policy))
    return _choose(policy, variant, facts, asked, kernels) == variant.name


def _choose(
    policy: Policy,
    variant: Variant,
    facts: Mapping[str, int],
    asked: Mapping[str, Scalar],
    kernels: Sequence[Built],
) -> str | None:
    """The name of the kernel that dispatch selects; None where the facts break a guard."""
    free = free_params(policy)
    fixed = {name: value for name, value in variant.params.items() if name not in free}
    bound = Bound({**fixed, **_figures(policy), **facts}, asked, {}, {}, frozenset(), "cpu")
    try:
        selection = select(policy, bound, kernels, jit=False)
    except KgenError:
        return None
    return selection.kernel.entry.name if selection.kernel is not None else None


def _facts(policy: Policy) -> Iterator[Mapping[str, int]]:
    """Run-time facts worth trying: all 1, and a few at a time at the values the policy speaks of."""
    derived = {*definitions(policy), *(name for name, _ in policy.facts)}
    codes = _codes(policy)
    used = {name for code in codes for name in names_in(code)}
    params = {p.name for p in policy.params}
    names = sorted(used - params - derived - set(_figures(policy)))
    values = sorted(_interesting(policy, codes))
    yield dict.fromkeys(names, 1)
    for count in range(1, MAX_VARIED + 1):
        for varied in combinations(names, count):
            for chosen in product(values, repeat=count):
                yield {**dict.fromkeys(names, 1), **dict(zip(varied, chosen, strict=True))}


def _codes(policy: Policy) -> list[Code]:
    """Every expression selection evaluates."""
    codes = [code for _, code in (*policy.lets, *policy.facts)] + [guard.check for guard in policy.guards]
    codes += [rule.want for rule in policy.select]
    return codes + [code for rule in policy.select for code in rule.policies.values()]


def _interesting(policy: Policy, codes: Sequence[Any]) -> set[int]:
    """The integers the policy compares with and the values of free parameters, and their neighbours."""
    free = free_params(policy)
    found = {value for p in policy.params if p.name in free for value in p.values if type(value) is int}
    found |= {value for code in codes for value in _integers(code)}
    return {near for value in found for near in (value, value + 1) if near > 1}


def _integers(code: Any) -> Iterator[int]:
    if isinstance(code, list):
        if len(code) == 2 and code[0] == "int":
            yield code[1]
        else:
            for part in code:
                yield from _integers(part)
