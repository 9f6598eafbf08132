"""How far a right result may lie from the exact one, from the roundings it takes.

A chain of n roundings of unit roundoff u moves a result by at most n*u, and, the roundings being
independent, by more than 4*sqrt(n)*u only once in thousands of trials even where each is as large as it
can be (Higham and Mary's probabilistic bound with lambda = 4). `walk(n)` is that length. Inputs are
exact: the oracle sees the values as they were rounded to their dtype.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Unit roundoff: half the distance from 1 to the next number."""

SMALLEST = {torch.float32: 2.0**-126, torch.float16: 2.0**-25, torch.bfloat16: 2.0**-126}
"""Absolute slack near zero: half the smallest f16 step; a flushed subnormal elsewhere."""

F32 = ROUNDOFF[torch.float32]
EXP2 = 8.0
"""Roundings charged to one exp2 or log2: a polynomial of at most 4 units, and its range reduction."""


def walk(steps: float) -> float:
    """Roundoffs that `steps` roundings may add up to."""
    return 4.0 * math.sqrt(max(steps, 1.0))


def logit_error(head_dim: int, size: Tensor) -> Tensor:
    """Error of s = q.k*scale in natural units; `size` is the Euclidean norm of the terms q_i*k_i*scale.

    The terms are drawn around zero, so a partial sum, which each of the `head_dim` additions rounds,
    is about `size` at most, and s is under 4 times that (then scale, log2(e), and the difference to the
    running maximum)."""
    return (walk(head_dim) + 16.0) * F32 * size


def weight_error(head_dim: int, keys: int, size: Tensor) -> Tensor:
    """Relative error of a softmax sum over `keys` keys: exp turns an error of s into a relative one;
    then an exp2, a rescaling at each new maximum (about log2 of the keys), and `keys` additions."""
    rescales = math.log2(keys + 2.0)
    return logit_error(head_dim, size) + (EXP2 * (1.0 + rescales) + walk(keys)) * F32


def score_error(size: Tensor | float) -> Tensor | float:
    """Relative error that a score expression adds to a weight; `size` is that of the largest logit. A
    score is a handful of operations and at most one call of a function, each a unit or two of its result,
    and the terms it adds are no larger than a few times the logit or as exact as it."""
    return 32.0 * F32 * size


def output_bound(
    exact: Tensor, relative: Tensor, magnitude: Tensor, dtype: torch.dtype, *, weights: float = 0.0
) -> Tensor:
    """Bound on |O - exact|: the relative error counts in the numerator, where it is a part of
    `magnitude` = sum of p|v|, and in the denominator; then O is rounded to its dtype. `weights` is the
    unit roundoff of the type p is rounded to for the second product, 0 where it stays f32."""
    inside = (2.0 * relative + weights) * magnitude
    return inside + ROUNDOFF[dtype] * (exact.abs() + inside) + SMALLEST[dtype]


def lse_bound(exact: Tensor, relative: Tensor) -> Tensor:
    """Bound on |LSE - exact|: the relative error of the sum is an absolute one of its logarithm;
    the maximum, log2 and their sum are rounded in f32. Where LSE is -inf it must be so exactly."""
    size = exact.abs().masked_fill(exact.isinf(), 0.0)
    return relative + (EXP2 + 4.0 * size) * F32
