"""The kernels of a step, as an engine is handed them: those of kgen by default."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from kgen import ops
from kgen.layout import Layout
from kgen.metadata import ExtendBatch

Scales = tuple[Tensor, Tensor]
"""k_scale and v_scale of a layer's caches, where those hold 8-bit floats."""


class Kernels(Protocol):
    """Writing KV to pages, and the two ways to attend to them. Shapes are those of `kgen.ops`."""

    def write(
        self,
        key: Tensor,
        value: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        slots: Tensor,
        layout: Layout,
        scales: Scales | None,
    ) -> None:
        """Write rows of keys and values to their slots."""
        ...

    def extend(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        batch: ExtendBatch,
        scale: float,
        layout: Layout,
        scales: Scales | None,
    ) -> Tensor:
        """Attention of the new tokens of a ragged batch, whose own KV is written already."""
        ...

    def decode(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        block_table: Tensor,
        seq_lens: Tensor,
        max_seq_len: int,
        scale: float,
        layout: Layout,
        scales: Scales | None,
    ) -> Tensor:
        """Attention of one token a sequence."""
        ...


class OpsKernels:
    """`kgen.ops`: built on first use where they are not yet."""

    def write(
        self,
        key: Tensor,
        value: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        slots: Tensor,
        layout: Layout,
        scales: Scales | None,
    ) -> None:
        """`reshape_and_cache`."""
        k_scale, v_scale = scales or (None, None)
        ops.reshape_and_cache(
            key, value, k_cache, v_cache, slots, layout=layout.name, k_scale=k_scale, v_scale=v_scale
        )

    def extend(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        batch: ExtendBatch,
        scale: float,
        layout: Layout,
        scales: Scales | None,
    ) -> Tensor:
        """`extend_attention`."""
        k_scale, v_scale = scales or (None, None)
        out: Tensor = ops.extend_attention(
            q,
            k_cache,
            v_cache,
            batch,
            softmax_scale=scale,
            layout=layout.name,
            k_scale=k_scale,
            v_scale=v_scale,
        )
        return out

    def decode(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        block_table: Tensor,
        seq_lens: Tensor,
        max_seq_len: int,
        scale: float,
        layout: Layout,
        scales: Scales | None,
    ) -> Tensor:
        """`paged_attention`."""
        k_scale, v_scale = scales or (None, None)
        out: Tensor = ops.paged_attention(
            q,
            k_cache,
            v_cache,
            block_table,
            seq_lens,
            softmax_scale=scale,
            max_seq_len=max_seq_len,
            layout=layout.name,
            k_scale=k_scale,
            v_scale=v_scale,
        )
        return out
