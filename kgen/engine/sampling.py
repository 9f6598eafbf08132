"""The choice of a token from its logits. A draw depends on seed, sample and position alone, so that neither
the batch, nor preemption, nor a step that is done again changes it."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from kgen.engine.errors import fault
from kgen.engine.params import SamplingParams

_FEW = 128
NOT_NUMBERS = "the model gave logits that are not numbers"


def choose(logits: Tensor, params: SamplingParams, sample: int, position: int) -> int:
    """The token after `position` tokens of a continuation, number `sample` of its request. logits [vocab]
    float32. Raises K804 where they hold a NaN or nothing finite."""
    best = int(logits.argmax())
    if not torch.isfinite(logits[best]):
        raise fault("K804", NOT_NUMBERS, "its weights or its KV are damaged")
    if params.greedy:
        return best
    return _draw(distribution(logits, params), _uniform(params.seed, sample, position))


def distribution(logits: Tensor, params: SamplingParams) -> Tensor:
    """Probabilities [vocab] float64, not normalised: 0 for what top_k and top_p leave out."""
    scaled = logits.double() / params.temperature
    if 0 < params.top_k < len(scaled):
        least = scaled.topk(params.top_k).values[-1]
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    found = torch.softmax(scaled, -1)
    if params.top_p < 1:
        found = found.masked_fill(found < _threshold(found, params.top_p), 0.0)
    return found


def _threshold(probabilities: Tensor, top_p: float) -> Tensor:
    """The least probability among the fewest tokens that have `top_p` together."""
    for count in (min(_FEW, len(probabilities)), len(probabilities)):
        top = probabilities.topk(count).values
        reached = top.cumsum(-1)
        if reached[-1] >= top_p:
            break
    return top[min(int(torch.searchsorted(reached, top_p)), count - 1)]


def _draw(probabilities: Tensor, uniform: float) -> int:
    """The token at which the running sum passes a number from 0 to below 1. In the order of the ids, so that
    a tiny change of the logits moves each border by as little."""
    sums = probabilities.cumsum(-1)
    token = int(torch.searchsorted(sums, uniform * float(sums[-1]), right=True))
    return min(token, int(probabilities.nonzero()[-1]))


def _uniform(seed: int, sample: int, position: int) -> float:
    return random.Random(f"{seed}/{sample}/{position}").random()
