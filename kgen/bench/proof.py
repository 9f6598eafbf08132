"""That a result is right, before it is timed: single rows of it against the float64 oracle."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kgen import ops, reference
from kgen.diagnostics import Diagnostic, KgenError
from kgen.testing import tolerance
from kgen.testing.attention import logit_size


def prove_row(
    name: str, row: int, got: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, *, narrow: bool
) -> None:
    """Compare a row of the kernel `name`, [num_heads, head_dim], with attention of its queries q to all of k
    and v, [keys, num_kv_heads, head_dim]. `narrow`: weights are rounded to the dtype of the values.

    Raises KgenError (K581) for a result outside the bounds of `kgen.testing.tolerance`.
    """
    group = q.shape[0] // k.shape[1]
    heads = range(k.shape[1])
    parts = [
        (got[h * group :][:group], q[h * group :][:group], k[:, h : h + 1], v[:, h : h + 1]) for h in heads
    ]
    if not all(_is_right(*part, scale, narrow) for part in parts):
        message = f"row {row} of {name} differs from the oracle; nothing was timed"
        raise KgenError(Diagnostic("K581", message, hint="run `kgen test` on the build"))


def _is_right(got: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float, narrow: bool) -> bool:
    """Whether the heads of one group are within their bounds. Without a mask they are as good as rows of one
    head, so that nothing is repeated for each of them."""
    both, _ = reference.attention(q.unsqueeze(1), k, torch.cat([v, v.abs()], dim=-1), scale, mask=None)
    exact, magnitude = both[:, 0].chunk(2, dim=-1)
    relative = tolerance.weight_error(q.shape[-1], k.shape[0], logit_size(q, k, scale)).unsqueeze(-1)
    weights = tolerance.ROUNDOFF[got.dtype] if narrow else 0.0
    bound = tolerance.output_bound(exact, relative, magnitude, got.dtype, weights=weights)
    return bool(((got.double() - exact).abs() <= bound).all())


def calls() -> Mapping[str, int]:
    """How often each kernel was launched so far."""
    return ops.dispatcher().calls()


def launched(before: Mapping[str, int]) -> str:
    """The kernel launched since."""
    return next(name for name, count in calls().items() if count != before.get(name, 0))


def narrow_weights(out: Tensor, eight_bit: bool) -> bool:
    """Whether decode may round the weights of this result: the matrix forms of GPUs do, and with 8-bit values
    hosts that multiply pairs of bf16."""
    return out.dtype != torch.float32 and (out.is_cuda or (eight_bit and out.dtype == torch.bfloat16))
