"""For which values of its scalars a plan is right, so that a growing length need not make a plan a step.

A plan was made by evaluating expressions: facts, guards, what rules want, sizes of axes, grids. It is
right wherever each of them has the value it had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kgen.dispatch import codes
from kgen.dispatch.model import Bound, Choice, Names, Selection
from kgen.dispatch.plan import Defaults
from kgen.dispatch.tracking import Interval, Tracker
from kgen.manifest import Code, Policy, Scalar
from kgen.semantics import evaluate

Ranges = Mapping[str, Interval]
"""The values of each scalar, both ends among them."""


def given_ints(policy: Policy, bound: Bound) -> Mapping[str, int]:
    """The int scalars that a call gives."""
    names = [rule.name for rule in policy.arguments if rule.kind == "int"]
    found = {name: bound.scalars.get(name) for name in names}
    return {name: int(value) for name, value in found.items() if value is not None}


def pinned(policy: Policy, bound: Bound) -> Ranges:
    """The ranges of a plan for no other values than those of its call."""
    return {name: (value, value) for name, value in given_ints(policy, bound).items()}


def plan_ranges(policy: Policy, bound: Bound, selection: Selection, defaults: Defaults) -> Ranges:
    """The ranges of the plan for a selection. `defaults` compute scalars that were left out."""
    scalars = given_ints(policy, bound)
    tracker = Tracker(selection.names, scalars)
    for code in _expressions(policy, selection):
        if codes.known(code, selection.names):
            tracker.constant(code)
    rest = {name: value for name, value in selection.names.items() if name not in scalars}
    for name, value in bound.scalars.items():
        if value is None and name in defaults and not _answers(defaults[name], rest):
            tracker.pin()
    return tracker.intervals


def _answers(default: Callable[[Names], float], names: Names) -> bool:
    """Whether a default asks for nothing but these."""
    try:
        default(names)
    except KeyError:
        return False
    return True


def _expressions(policy: Policy, selection: Selection) -> Iterator[Code]:
    yield from (code for _, code in policy.facts)
    yield from (guard.check for guard in policy.guards)
    yield from selection.examined
    for choice in selection.choices:
        yield from _wanted(policy, choice)
    for rule in policy.arguments:
        if rule.when is not None:
            yield rule.when
        if not rule.workspace or rule.when is None or evaluate(rule.when, selection.names):
            yield from (axis.size for axis in rule.axes)
    launch = selection.kernel.entry.launch if selection.kernel else None
    while launch is not None:
        yield from launch.grid
        launch = launch.then


def _wanted(policy: Policy, choice: Choice) -> Iterator[Code]:
    """What a rule computed; nothing where a call or the environment insisted."""
    rule = next(rule for rule in policy.select if rule.param == choice.param)
    if choice.source == "rule":
        yield rule.want
    elif choice.source.startswith("policy "):
        yield rule.policies.get(choice.source.removeprefix("policy "), rule.want)


def covers(ranges: Ranges, scalars: Mapping[str, Scalar | None]) -> bool:
    """Whether a plan is right for these values; a scalar that was left out is no matter of ranges."""
    return all(low <= int(scalars[name] or 0) <= high for name, (low, high) in ranges.items())
