"""KV-cache layouts as pure data and stride arithmetic.

A layout orders the axes `block, head, token, dim` for K and for V. `dim` may be split: axis
`dim/8` counts groups of eight, and the axis `8` that follows is the place inside a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

AXES = ("block", "head", "token", "dim")
CACHE_SIZES = {"block": "num_blocks", "head": "num_kv_heads", "token": "block_size", "dim": "head_dim"}
"""What the size of each axis of a KV cache is called."""


@dataclass(frozen=True)
class TensorOrder:
    """The order of one cache tensor, outermost first. `split` is the group width of a split
    dim (the literal `x` means 16 bytes' worth of elements and is stored as 0), else None."""

    axes: tuple[str, ...]  # of block, head, token, dim, inner
    split: int | None = None

    def width(self, itemsize: int) -> int:
        """Elements in a group of the split dim; 1 when dim is not split."""
        if self.split is None:
            return 1
        return self.split or 16 // itemsize

    @property
    def innermost(self) -> str:
        """The axis whose stride is 1: dim, token or inner."""
        return self.axes[-1]


@dataclass(frozen=True)
class Sizes:
    """The extents of a cache: counts of blocks, KV heads, tokens in a block, elements in a row."""

    num_blocks: int
    num_heads: int
    block_size: int
    head_dim: int
    itemsize: int


@dataclass(frozen=True)
class Layout:
    """A named pair of orders. An order that is not known is None, with the reason in `because`."""

    name: str
    k: TensorOrder | None
    v: TensorOrder | None
    doc: str = ""
    because: str = ""
    also: tuple[str, ...] = ()

    def order(self, tensor: str) -> TensorOrder | None:
        """The order of `k` or `v`."""
        return self.k if tensor == "k" else self.v


def shape(order: TensorOrder, sizes: Sizes) -> tuple[int, ...]:
    """The shape of a contiguous cache tensor in this order."""
    extents = _extents(order, sizes)
    return tuple(extents[axis] for axis in order.axes)


def strides(order: TensorOrder, sizes: Sizes) -> Mapping[str, int]:
    """Element strides of a contiguous cache by axis name (`inner` only when dim is split)."""
    extents = _extents(order, sizes)
    result: dict[str, int] = {}
    step = 1
    for axis in reversed(order.axes):
        result[axis] = step
        step *= extents[axis]
    return result


def offset(order: TensorOrder, sizes: Sizes, *, block: int, head: int, token: int, dim: int) -> int:
    """The element offset of one scalar in a contiguous cache (reference 1.3)."""
    by_axis = strides(order, sizes)
    width = order.width(sizes.itemsize)
    base = block * by_axis["block"] + head * by_axis["head"] + token * by_axis["token"]
    return base + dim // width * by_axis["dim"] + (dim % width) * by_axis.get("inner", 0)


def _extents(order: TensorOrder, sizes: Sizes) -> Mapping[str, int]:
    width = order.width(sizes.itemsize)
    return {
        "block": sizes.num_blocks,
        "head": sizes.num_heads,
        "token": sizes.block_size,
        "dim": sizes.head_dim // width,
        "inner": width,
    }


def attributes(layout: Layout) -> Mapping[str, str | bool]:
    """What expressions may ask of a layout: `k_known`, `k_inner` (`unknown` where the order is
    not known) and the same for v."""
    result: dict[str, str | bool] = {}
    for tensor in ("k", "v"):
        order = layout.order(tensor)
        result[f"{tensor}_known"] = order is not None
        result[f"{tensor}_inner"] = order.innermost if order is not None else "unknown"
    return result
