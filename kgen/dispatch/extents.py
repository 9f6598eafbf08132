"""Extents that may change without a new plan: rows of ragged batches, entries of index arrays.

Such an extent is what the first axis of tensors counts and no other axis speaks of. While there are two or
more of it, and they lie farthest apart, it is one more int that plans have a range for, like a scalar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kgen.dispatch import codes
from kgen.dispatch.model import Names, View
from kgen.layout import CACHE_SIZES
from kgen.manifest import ArgumentRule, Code, Policy


def counted_extents(policy: Policy) -> Mapping[str, str]:
    """Tensor -> what its first axis counts, of those that plans are not told apart by."""
    rules = [rule for rule in policy.arguments if rule.kind in ("tensor", "cache") and not rule.workspace]
    fixed = {*(p.name for p in policy.params), *(name for name, _ in (*policy.lets, *policy.facts))}
    if any(rule.kind == "cache" for rule in rules):
        fixed |= set(CACHE_SIZES.values())
    for code in _other_sizes(rules):
        fixed |= codes.names_in(code)
    named = {rule.name: _first(rule) for rule in rules}
    return {tensor: name for tensor, name in named.items() if name and name not in fixed}


def moving_extents(
    counted: Mapping[str, str], names: Names, views: Mapping[str, View | None]
) -> tuple[Mapping[str, int], frozenset[str]]:
    """The counted extents of a call, and those of them that other calls of its plan may have otherwise."""
    there = {tensor: name for tensor, name in counted.items() if views.get(tensor) and name in names}
    found = {name: int(names[name]) for name in there.values()}
    tied = {name for tensor, name in there.items() if not _is_outermost(views[tensor])}
    return found, frozenset(name for name, extent in found.items() if extent > 1 and name not in tied)


def _first(rule: ArgumentRule) -> str:
    """The name that is the size of the first axis; empty where there is none."""
    if rule.kind == "cache" or rule.broadcast or not rule.axes or rule.axes[0].size[0] != "name":
        return ""
    return str(rule.axes[0].size[1])


def _other_sizes(rules: list[ArgumentRule]) -> Iterator[Code]:
    for rule in rules:
        yield from (axis.size for axis in rule.axes[1 if _first(rule) else 0 :])


def _is_outermost(view: View | None) -> bool:
    """Whether no other axis has as large a stride as the first, so that more along it change nothing else."""
    if view is None or not view.shape or view.strides[0] <= 0:
        return False
    others = zip(view.shape[1:], view.strides[1:], strict=True)
    return all(stride < view.strides[0] for extent, stride in others if extent > 1)
