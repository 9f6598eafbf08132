"""Are the tokens the same, and if not, how near was the choice?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kgen.demo.stock import Answers, Name, Stock

ENDED = -1
"""No token: the answer had ended."""

NEAR_TIE = 0.01
"""Logits within which the rounding of a sum may decide."""


@dataclass(frozen=True)
class Split:
    """Where a session's tokens part: its turn, the step, both tokens, and by how many logits the stock model
    preferred its own. Up to there both read the same text. A token is ENDED, and the margin None, where
    one answer is longer."""

    session: int
    turn: int
    step: int
    stock: int
    other: int
    margin: float | None


@dataclass(frozen=True)
class Comparison:
    """`same` of the stock model's `total` tokens came alike. What follows a split in a session is not
    compared, since its text is another one; it counts as not the same."""

    splits: Sequence[Split]
    same: int
    total: int

    @property
    def identical(self) -> bool:
        """Every token of every answer."""
        return not self.splits


def compare(stock: Stock, answers: Answers) -> Comparison:
    """Hold answers against those of the stock model."""
    splits: dict[int, Split] = {}
    same = 0
    for name in sorted(stock.answers):
        if name[0] in splits:
            continue
        split = _split(stock, name, answers.get(name, ()))
        same += len(stock.answers[name]) if split is None else split.step
        if split is not None:
            splits[name[0]] = split
    return Comparison(tuple(splits.values()), same, sum(map(len, stock.answers.values())))


def _split(stock: Stock, name: Name, other: Sequence[int]) -> Split | None:
    pairs = enumerate(zip_longest(stock.answers[name], other, fillvalue=ENDED))
    found = next(((step, one, two) for step, (one, two) in pairs if one != two), None)
    if found is None:
        return None
    session, turn = name
    step, one, two = found
    margin = None
    if ENDED not in (one, two):
        logits = stock.logits[turn][step][session]
        margin = float(logits[one] - logits[two])
    return Split(session, turn, step, one, two, margin)
