"""What others do with the same work: torch on keys and values already gathered into one piece, and
FlashInfer on the pages where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kgen.bench.pool import Pool

Call = Callable[[int], Tensor]
"""(number of a table) -> O [batch, heads, head_dim]"""


class Absent(Exception):
    """A peer that cannot do the work; the text says why."""


@dataclass(frozen=True)
class Gathered:
    """The work behind one table in one piece: q [B, Hq, D]; k and v [B, Hkv, L, D]; visible [B, 1, 1, L]
    bool, None where all rows are of length L."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    visible: Tensor | None = None

    @property
    def folded(self) -> Tensor:
        """The heads of a group as the rows of one, [B, Hkv, group, D], so that keys are read once."""
        return self.q.reshape(*self.k.shape[:2], -1, self.q.shape[-1])


Dense = Callable[[Gathered], Tensor]
"""-> O [B, Hq, D]"""


class Work:
    """Decode over a pool, for peers to do."""

    def __init__(self, pool: Pool, scale: float) -> None:
        self.pool = pool
        self.scale = scale

    @cached_property
    def gathered(self) -> Sequence[Gathered]:
        """Behind each table."""
        pool, visible = self.pool, None
        if pool.shape.ragged:
            keys = torch.arange(pool.shape.longest, device=pool.q.device)
            visible = (keys < pool.seq_lens.unsqueeze(1))[:, None, None, :]
        tables = range(len(pool.tables))
        return [Gathered(pool.q, *pool.contiguous(number), self.scale, visible) for number in tables]


Peer = Callable[[Work], Call]
"""Prepares what need not be timed. Raises Absent, or whatever the peer's own code raises."""


def sdpa(work: Gathered) -> Tensor:
    """One query row a head; torch pairs heads with their KV head and chooses the kernel."""
    out: Tensor = scaled_dot_product_attention(
        work.q.unsqueeze(2), work.k, work.v, attn_mask=work.visible, scale=work.scale, enable_gqa=True
    )
    return out.squeeze(2)


def sdpa_folded(work: Gathered) -> Tensor:
    """The heads of a group as rows."""
    out: Tensor = scaled_dot_product_attention(
        work.folded, work.k, work.v, attn_mask=work.visible, scale=work.scale
    )
    return out.reshape(work.q.shape)


def matmuls(work: Gathered) -> Tensor:
    """Two batched products with a softmax between."""
    scores = (work.folded * work.scale) @ work.k.transpose(2, 3)
    if work.visible is not None:
        scores = scores.masked_fill(~work.visible, -torch.inf)
    return (torch.softmax(scores, dim=-1) @ work.v).reshape(work.q.shape)


def _dense(form: Dense) -> Peer:
    def prepare(work: Work) -> Call:
        gathered = work.gathered
        return lambda number: form(gathered[number])

    return prepare


def _backend(name: str) -> Peer:
    """torch's attention by one of its kernels, heads folded as all of them take."""

    def prepare(work: Work) -> Call:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        gathered, chosen = work.gathered, getattr(SDPBackend, name)

        def call(number: int) -> Tensor:
            with sdpa_kernel(chosen):
                return sdpa_folded(gathered[number])

        return call

    return prepare


def flex(work: Work) -> Call:
    """FlexAttention, compiled for this shape; of a ragged batch with a mask of its lengths."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.compiler.reset()  # a function compiled for many shapes would fall back to slow code
    compiled: Any = torch.compile(flex_attention, dynamic=False)
    gathered, lengths, mask = work.gathered, work.pool.seq_lens, None
    if work.pool.shape.ragged:
        sizes = (work.pool.shape.batch, None, 1, work.pool.shape.longest)
        mask = create_block_mask(lambda b, h, q, kv: kv < lengths[b], *sizes, device=str(lengths.device))

    def call(number: int) -> Tensor:
        one = gathered[number]
        out: Tensor = compiled(
            one.q.unsqueeze(2), one.k, one.v, block_mask=mask, scale=one.scale, enable_gqa=True
        )
        return out.squeeze(2)

    return call


COMPILED = ("flex",)
"""Peers that compile for a while for each shape: only where they are asked for."""
_EVERYWHERE: Mapping[str, Peer] = {
    "sdpa": _dense(sdpa),
    "sdpa_folded": _dense(sdpa_folded),
    "matmuls": _dense(matmuls),
    "flex": flex,
}
_ON_GPUS: Mapping[str, Peer] = {
    "sdpa_flash": _backend("FLASH_ATTENTION"),
    "sdpa_efficient": _backend("EFFICIENT_ATTENTION"),
    "sdpa_cudnn": _backend("CUDNN_ATTENTION"),
}


def dense_peers(on_gpu: bool) -> Mapping[str, Peer]:
    """torch's own, by name."""
    return {**_EVERYWHERE, **(_ON_GPUS if on_gpu else {})}
