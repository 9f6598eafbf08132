"""How the scratch memory of a call is laid out: bytes in all, and where each argument starts in them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from kgen.arithmetic import INT_MAX
from kgen.dispatch.errors import fault
from kgen.dispatch.intervals import Tracked
from kgen.dispatch.paths import FAR
from kgen.dispatch.tracking import Tracker
from kgen.dispatch.workspace import ALIGNMENT, ZEROED
from kgen.manifest import ArgumentRule, Policy
from kgen.semantics import DTYPES

Strides = Mapping[str, Tracked]
"""Of one argument, in elements, by axis."""


@dataclass(frozen=True)
class Scratch:
    """Scratch memory of a plan: bytes in all, where each argument starts, and its strides. What is to be
    zeros lies before the rest, at offsets below 0."""

    size: Tracked
    offsets: Mapping[str, Tracked]
    strides: Mapping[str, Strides]


def scratch_of(policy: Policy, tracker: Tracker) -> Scratch:
    """The scratch memory a variant needs: largest part first, without gaps. Raises KgenError (K517) where it
    needs more zeros than there are, or more bytes than can be counted."""
    rules = [rule for rule in policy.arguments if rule.workspace and is_needed(rule, tracker)]
    lies = {rule.name: _lies(policy, rule, tracker) for rule in rules}
    size, offsets = _in_a_row(tracker, {rule.name: lies[rule.name][1] for rule in rules if not rule.zeroed})
    zeros, within = _in_a_row(tracker, {rule.name: lies[rule.name][1] for rule in rules if rule.zeroed})
    if zeros.value > ZEROED:
        raise fault("K517", f"{policy.op} needs {zeros.value} bytes of zeros; a workspace has {ZEROED}")
    tracker.within(zeros, 0, ZEROED)
    blocks = tracker.bent(tracker.straight(zeros, 1, ALIGNMENT - 1), "//", ALIGNMENT)
    start = tracker.straight(blocks, -ALIGNMENT, 0)
    return Scratch(
        size,
        {**offsets, **{name: tracker.sum(start, at) for name, at in within.items()}},
        {name: strides for name, (strides, _) in lies.items()},
    )


def is_needed(rule: ArgumentRule, tracker: Tracker) -> bool:
    """Whether a variant has this argument."""
    return rule.when is None or bool(tracker.constant(rule.when))


def _lies(policy: Policy, rule: ArgumentRule, tracker: Tracker) -> tuple[Strides, Tracked]:
    """Strides and bytes of a contiguous argument."""
    size = DTYPES[rule.dtype]
    strides: dict[str, Tracked] = {}
    step = Tracked(1)
    for axis in reversed(rule.axes):
        strides[axis.name] = step
        extent = tracker.follow(axis.size)
        if step.value * extent.value * size > INT_MAX:
            raise fault("K517", f"{policy.op}: {rule.name} would take more than {INT_MAX} bytes of workspace")
        step = tracker.product(step, extent)
    return strides, tracker.straight(step, size, 0)


def _in_a_row(tracker: Tracker, sizes: Mapping[str, Tracked]) -> tuple[Tracked, Mapping[str, Tracked]]:
    """Bytes in all, and where each part starts, while their order by size stays."""
    order = sorted(sizes, key=lambda name: (-sizes[name].value, name))
    for first, second in itertools.pairwise(order):
        tracker.within(tracker.apart(sizes[first], sizes[second]), 0 if first < second else 1, FAR)
    offsets, total = {}, Tracked(0)
    for name in order:
        offsets[name] = total
        total = tracker.sum(total, sizes[name])
    return total, offsets
