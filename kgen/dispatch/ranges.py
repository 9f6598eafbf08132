"""For which scalars and extents a plan is right, so that a growing length makes no plan a step.

A plan was made by decisions: guards, what rules want, which arguments there are, whether sizes agree. It
is right wherever each of them goes as it went; the figures behind them move along their paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType

from kgen.dispatch import codes
from kgen.dispatch.block import Defaults
from kgen.dispatch.model import Bound, Choice, Names, Selection
from kgen.dispatch.paths import Interval
from kgen.dispatch.tracking import Tracker
from kgen.manifest import Code, Policy
from kgen.semantics import INT_MAX

Ranges = Mapping[str, Interval]
"""The values of each scalar and extent, both ends among them."""
MANY = (2, INT_MAX)
"""An extent of one or none is looked at otherwise: strides say nothing then."""


def given_ints(policy: Policy, bound: Bound) -> Mapping[str, int]:
    """The int scalars that a call gives."""
    names = [rule.name for rule in policy.arguments if rule.kind == "int"]
    found = {name: bound.scalars.get(name) for name in names}
    return {name: int(value) for name, value in found.items() if value is not None}


def pinned(policy: Policy, bound: Bound, extents: Mapping[str, int]) -> Ranges:
    """The ranges of a plan for no other values than those of its call."""
    return {name: (value, value) for name, value in {**given_ints(policy, bound), **extents}.items()}


def follow_decisions(
    policy: Policy,
    bound: Bound,
    selection: Selection,
    defaults: Defaults,
    extents: Mapping[str, int] = MappingProxyType({}),
    moving: Collection[str] = (),
) -> Tracker:
    """A tracker of the call's int scalars and counted extents that has followed every decision. `moving`:
    the extents that may change; `defaults` compute scalars that were left out."""
    definitions = codes.definitions(policy)
    tracker = Tracker(selection.names, {**given_ints(policy, bound), **extents}, policy.facts, definitions)
    for name in extents:
        tracker.within(tracker.named(name), *(MANY if name in moving else (extents[name], extents[name])))
    agreed = [["name", name] for name in extents]  # whoever reads a call sees that its tensors agree
    for code in _decisions(policy, selection):
        if code not in agreed and codes.known(code, selection.names, definitions):
            tracker.constant(code)
    still = tracker.still_names()
    for name, value in bound.scalars.items():
        if value is None and name in defaults and not _answers(defaults[name], still):
            tracker.pin()
    return tracker


def _answers(default: Callable[[Names], float], names: Names) -> bool:
    """Whether a default asks for nothing but these."""
    try:
        default(names)
    except KeyError:
        return False
    return True


def _decisions(policy: Policy, selection: Selection) -> Iterator[Code]:
    yield from (guard.check for guard in policy.guards)
    yield from selection.examined
    for choice in selection.choices:
        yield from _wanted(policy, choice)
    for rule in policy.arguments:
        if rule.when is not None:
            yield rule.when
        if not rule.workspace:
            yield from (axis.size for axis in rule.axes)


def _wanted(policy: Policy, choice: Choice) -> Iterator[Code]:
    """What a rule computed; nothing where a call or the environment insisted."""
    rule = next(rule for rule in policy.select if rule.param == choice.param)
    if choice.source == "rule":
        yield rule.want
    elif choice.source.startswith("policy "):
        yield rule.policies.get(choice.source.removeprefix("policy "), rule.want)
