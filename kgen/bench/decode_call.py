"""The calls of paged_attention that `kgen bench` times, and the proof that their results are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from kgen import api, ops
from kgen.bench.pool import Pool, Shape
from kgen.bench.proof import calls, launched, narrow_weights, prove_row
from kgen.dispatch import gpu
from kgen.manifest import Scalar

ROWS = 8
"""Rows of the first table that are compared with the oracle; of every other table it is one."""


def kernel_of(
    shape: Shape, forced: Mapping[str, Scalar | None], arch: str | None
) -> tuple[str, Mapping[str, Scalar]]:
    """The variant that a call would build if none were built, as operator and parameters: one for larger
    groups that happens to be there would serve the call too, and be measured. `forced` and `arch` as for
    `Decode`."""
    sizes: dict[str, Scalar] = {
        "num_seqs": shape.batch,
        "max_seq_len": shape.longest,
        "num_heads": shape.heads,
        "num_kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "dtype": shape.dtype,
        "kv_dtype": shape.kv_dtype or shape.dtype,
        "layout": shape.layout,
        "block_size": shape.block_size,
        "arch": arch or (gpu.arch_of(shape.device) if shape.device != "cpu" else api.compiler().native()),
    }
    sizes |= {name: value for name, value in forced.items() if value is not None}
    return "paged_attention", ops.dispatcher().explain("paged_attention", sizes, anew=True).params


class Decode:
    """Calls of paged_attention over the tables of a pool; `forced`: parameters and a policy to insist on."""

    def __init__(self, pool: Pool, forced: Mapping[str, Scalar | None], arch: str | None = None) -> None:
        self.pool = pool
        self.scale = pool.shape.head_dim**-0.5
        self.longest = pool.shape.longest
        self.out = torch.empty_like(pool.q)
        self.forced: dict[str, Any] = {name: value for name, value in forced.items() if value is not None}
        self.arch = arch

    def __call__(self, number: int) -> Tensor:
        pool = self.pool
        ops.paged_attention(
            pool.q,
            pool.k_cache,
            pool.v_cache,
            pool.tables[number],
            pool.seq_lens,
            softmax_scale=self.scale,
            max_seq_len=self.longest,
            layout=pool.layout.name,
            k_scale=pool.scale,
            v_scale=pool.scale,
            out=self.out,
            arch=self.arch,
            **self.forced,
        )
        return self.out

    def check(self) -> str:
        """Call with every table and compare rows of each result with the float64 oracle; the name of the
        kernel that runs. Raises KgenError (K581) for a result outside the bounds of
        `kgen.testing.tolerance`."""
        before = calls()
        self.out.fill_(torch.nan)
        self(0)
        name = launched(before)
        ops.check()
        self.compare(0, name)
        for number in range(1, len(self.pool.tables)):
            self.out.fill_(torch.nan)
            self(number)
            ops.check()
            self.compare(number, name)
        return name

    def compare(self, number: int, name: str) -> None:
        """Compare what `out` holds with the oracle's rows for a table. Raises KgenError (K581)."""
        for row in _sample(self.pool.shape.batch, number):
            k, v = self.pool.row(number, row)
            narrow = narrow_weights(self.out, self.pool.scale is not None)
            prove_row(name, row, self.out[row], self.pool.q[row], k, v, self.scale, narrow=narrow)


def _sample(batch: int, number: int) -> list[int]:
    """The rows of a table to look at: spread over the batch, other ones for other tables."""
    if number:
        return [number % batch]
    count = min(batch, ROWS)
    return [row * batch // count for row in range(count)]
