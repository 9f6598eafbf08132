"""KV memory: a key and a value tensor for each layer, in any layout, cut into pages.

Pages and token slots are two ways to name the same memory: slot `page * block_size + offset`. The tensors
say nothing of who owns a page; that is `PagePool`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kgen.layout import Layout, Sizes, TensorOrder, shape
from kgen.runtime.errors import fault, whole
from kgen.runtime.scales import FLOAT8

MEMORY_PART = 0.9
"""The part of all memory that a process may use, weights and activations included."""


@dataclass(frozen=True)
class KVShape:
    """What one token takes: layers, KV heads, elements of a head, and their type."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def token_bytes(self) -> int:
        """Bytes of keys and values of one token over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * self.dtype.itemsize


def num_blocks_for(
    kv: KVShape, block_size: int, total_bytes: int, used_bytes: int, part: float = MEMORY_PART
) -> int:
    """Blocks that fit: floor((total * part - used) / bytes of a block). `used_bytes` is the peak in use
    without KV: weights and activations. Raises K702 when not one fits."""
    if not 0 < part <= 1:
        raise fault("K701", f"the part of memory to use is {part}, expected above 0 and at most 1")
    block_bytes = kv.token_bytes * whole("block_size", block_size, 1)
    left = int(total_bytes * part) - used_bytes
    if left < block_bytes:
        message = f"{left} bytes are left for KV and one block of {block_size} tokens takes {block_bytes}"
        raise fault(
            "K702", message, hint=f"raise the part of memory to use above {part}, or shrink block_size"
        )
    return left // block_bytes


class KVPool:
    """`keys` and `values`: for each layer a zeroed tensor of `num_blocks` blocks in the given layout."""

    def __init__(
        self,
        layout: Layout,
        kv: KVShape,
        num_blocks: int,
        block_size: int,
        device: str | torch.device = "cpu",
        *,
        pinned: bool = False,
    ) -> None:
        self.layout, self.kv = layout, kv
        self.num_blocks = whole("num_blocks", num_blocks, 1)
        self.block_size = whole("block_size", block_size, 1)
        orders = [_known(layout, tensor) for tensor in ("k", "v")]
        sizes = Sizes(num_blocks, kv.num_kv_heads, block_size, kv.head_dim, kv.dtype.itemsize)
        self.keys, self.values = (
            [
                torch.zeros(_shape(order, sizes), dtype=kv.dtype, device=device, pin_memory=pinned)
                for _ in range(kv.num_layers)
            ]
            for order in orders
        )
        self._block_axes = [order.axes.index("block") for order in orders]
        self._orders = orders

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors."""
        return self.num_blocks * self.block_size * self.kv.token_bytes

    def slots(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [num_blocks * block_size, num_kv_heads, head_dim] by token slot: the same memory.

        Raises K701 for a layout whose tokens do not follow each other at one stride; bshd and block_size 1
        always do.
        """
        return self._by_slot(self.keys[layer], 0), self._by_slot(self.values[layer], 1)

    def copy(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole pages (source, destination) in every layer; all are read before any is written."""
        self.copy_from(self, pairs)

    def copy_from(self, other: KVPool, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy pages (page of `other`, page of this), as swapping does. Raises K701 for pages that are not
        there and for another layout or shape."""
        if (other.layout, other.kv, other.block_size) != (self.layout, self.kv, self.block_size):
            raise fault("K701", "pages are copied between pools of one layout, shape and block size")
        if not pairs:
            return
        sources, targets = zip(*pairs, strict=True)
        _check_pages(sources, other.num_blocks)
        _check_pages(targets, self.num_blocks)
        for ours, theirs, axis in (
            (self.keys, other.keys, self._block_axes[0]),
            (self.values, other.values, self._block_axes[1]),
        ):
            for own, foreign in zip(ours, theirs, strict=True):
                held, kept = _movable(foreign), _movable(own)
                read = held.index_select(axis, torch.tensor(sources, device=held.device))
                kept.index_copy_(axis, torch.tensor(targets, device=kept.device), read.to(kept.device))

    def _by_slot(self, tensor: torch.Tensor, which: int) -> torch.Tensor:
        axes = self._orders[which].axes
        if "inner" in axes:
            raise fault("K701", f"layout {self.layout.name} splits head_dim; it has no view by token slot")
        by_token = tensor.permute([axes.index(axis) for axis in ("block", "token", "head", "dim")])
        block, token = by_token.stride()[:2]
        if self.block_size > 1 and block != token * self.block_size:
            raise fault("K701", f"layout {self.layout.name} has no view by token slot; bshd has")
        return by_token.flatten(0, 1)


def _known(layout: Layout, tensor: str) -> TensorOrder:
    order = layout.order(tensor)
    if order is None:
        raise fault("K701", f"layout {layout.name} does not say how {tensor} lies: {layout.because}")
    return order


def _shape(order: TensorOrder, sizes: Sizes) -> tuple[int, ...]:
    if sizes.head_dim % order.width(sizes.itemsize):
        raise fault("K701", f"head_dim {sizes.head_dim} is no multiple of {order.width(sizes.itemsize)}")
    return shape(order, sizes)


def _movable(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory with elements that every device can index: 8-bit floats as bytes."""
    return tensor.view(torch.uint8) if tensor.dtype in FLOAT8 else tensor


def _check_pages(pages: Sequence[int], count: int) -> None:
    for page in pages:
        if not 0 <= page < count:
            raise fault("K701", f"page {page} does not exist; pages are 0 to {count - 1}")
