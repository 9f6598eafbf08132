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
    query = q.unsqueeze(0)
    exact, _ = reference.attention(query, k, v, scale, mask=None)
    magnitude, _ = reference.attention(query, k, v.abs(), scale, mask=None)
    relative = tolerance.weight_error(q.shape[-1], k.shape[0], logit_size(q, k, scale)).unsqueeze(-1)
    weights = tolerance.ROUNDOFF[got.dtype] if narrow else 0.0
    bound = tolerance.output_bound(exact[0], relative, magnitude[0], got.dtype, weights=weights)
    if not bool(((got.double() - exact[0]).abs() <= bound).all()):
        message = f"row {row} of {name} differs from the oracle; nothing was timed"
        raise KgenError(Diagnostic("K581", message, hint="run `kgen test` on the build"))


def calls() -> Mapping[str, int]:
    """How often each kernel was launched so far."""
    return ops.dispatcher().calls()


def launched(before: Mapping[str, int]) -> str:
    """The kernel launched since."""
    return next(name for name, count in calls().items() if count != before.get(name, 0))


def narrow_on_gpu(out: Tensor) -> bool:
    """Whether decode rounds the weights of this result: the matrix forms of GPUs do."""
    return out.is_cuda and out.dtype != torch.float32
