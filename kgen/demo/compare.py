"""Are the tokens the same, and if not, how near was the choice?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kgen.demo.decode import Decoded


@dataclass(frozen=True)
class Split:
    """Where a prompt's tokens part: the step, both tokens, and by how much each run preferred its
    own to the other's (in logits). Up to there both runs read the same text."""

    prompt: int
    step: int
    stock: int
    paged: int
    stock_margin: float
    paged_margin: float


@dataclass(frozen=True)
class Comparison:
    """identical: tokens equal up to the first end mark of each prompt. same: tokens before the first
    difference, of `total`. logit_error: the largest difference of two logits that belong to the
    same text."""

    splits: Sequence[Split]
    same: int
    total: int
    logit_error: float

    @property
    def identical(self) -> bool:
        return not self.splits


def compare(stock: Decoded, paged: Decoded, end_token: int | None) -> Comparison:
    """Compare two runs of the same prompts; what follows an end mark does not count."""
    splits: list[Split] = []
    same = total = 0
    error = 0.0
    for prompt, (mine, other) in enumerate(zip(stock.tokens, paged.tokens, strict=True)):
        length = mine.index(end_token) + 1 if end_token in mine else len(mine)
        apart = next((i for i in range(length) if mine[i] != other[i]), length)
        total += length
        same += apart
        for step in range(min(apart + 1, length)):
            gap = (stock.logits[step][prompt] - paged.logits[step][prompt]).abs().max()
            error = max(error, float(gap))
        if apart < length:
            splits.append(_split(stock, paged, prompt, apart))
    return Comparison(splits, same, total, error)


def _split(stock: Decoded, paged: Decoded, prompt: int, step: int) -> Split:
    mine, other = stock.tokens[prompt][step], paged.tokens[prompt][step]
    return Split(
        prompt,
        step,
        mine,
        other,
        _margin(stock.logits[step][prompt], mine, other),
        _margin(paged.logits[step][prompt], other, mine),
    )


def _margin(logits: torch.Tensor, chosen: int, other: int) -> float:
    return float(logits[chosen] - logits[other])
