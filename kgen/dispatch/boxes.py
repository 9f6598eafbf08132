"""Tensors that a copy engine brings in boxes: how they lie, for the driver to encode at each call.

A box is some rows of one head, all or some dims of them, in panels of 128 bytes. To the engine a tensor has
five axes: the dims of a panel, rows, panels, heads and blocks; all but the first have a stride in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from kgen.dispatch.model import Bound, Names
from kgen.layout import CACHE_SIZES
from kgen.manifest import ArgumentRule, Box, Policy
from kgen.semantics import DTYPES, evaluate

PANEL = 128
"""Bytes of a row in a panel."""


@dataclass(frozen=True)
class TensorMap:
    """How one tensor lies. `place`: of its pointer in the argument block; -1 where the call leaves it out.
    Sizes and the box count elements along the five axes, strides bytes along the last four. `rows`: what the
    size along the second axis is, where that may change."""

    place: int
    element_bytes: int = 0
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    rows: str = ""

    def at(self, values: Mapping[str, int]) -> TensorMap:
        """The map of a call with other extents."""
        if self.rows not in values:
            return self
        return replace(self, sizes=(self.sizes[0], values[self.rows], *self.sizes[2:]))


def tensor_map(
    policy: Policy, bound: Bound, names: Names, box: Box, moving: Mapping[str, str] = MappingProxyType({})
) -> TensorMap:
    """The map of a tensor of a bound call; `moving`: what may change along the first axis of some."""
    rule = next(rule for rule in policy.arguments if rule.name == box.argument)
    strides = bound.strides.get(rule.name)
    if strides is None or rule.name in bound.absent:
        return TensorMap(-1)
    sizes = _sizes(rule, names)
    place = next(i for i, w in enumerate(policy.words) if w.kind == "pointer" and w.argument == rule.name)
    element = DTYPES[str(names.get(rule.dtype, rule.dtype))]
    row, width = ("token" if rule.kind == "cache" else rule.axes[0].name), PANEL // element
    panels = sizes["dim"] // width
    return TensorMap(
        place,
        element,
        # A tensor without elements is never read, but the driver knows no axis without places.
        tuple(max(n, 1) for n in (width, sizes[row], panels, sizes["head"], sizes.get("block", 1))),
        tuple(n * element for n in (strides[row], width, strides["head"], strides.get("block", width))),
        (width, box.rows, box.dims // width or panels, 1, 1),
        moving.get(rule.name, ""),
    )


def _sizes(rule: ArgumentRule, names: Names) -> Mapping[str, int]:
    if rule.kind == "cache":
        return {axis: int(names[name]) for axis, name in CACHE_SIZES.items()}
    return {axis.name: int(evaluate(axis.size, names)) for axis in rule.axes}
