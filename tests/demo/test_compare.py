"""Comparing two runs of the same sessions: what counts as the same, and how a difference is described."""

import pytest
import torch

from kgen.demo.compare import ENDED, compare
from kgen.demo.stock import Stock


def stock_of(answers, logits=None):
    longest = max(map(len, answers.values()))
    turns = 1 + max(turn for _, turn in answers)
    sessions = 1 + max(session for session, _ in answers)
    zeros = [[torch.zeros(sessions, 10) for _ in range(longest)] for _ in range(turns)]
    return Stock(dict(answers), logits or zeros)


def test_equal_answers_are_identical():
    answers = {(0, 0): (1, 2, 3), (1, 0): (4, 5)}
    result = compare(stock_of(answers), dict(answers))
    assert result.identical and (result.same, result.total) == (5, 5)


def test_a_difference_is_placed_and_its_margin_measured():
    stock = stock_of({(0, 0): (1, 2, 3), (1, 0): (4, 5, 6), (0, 1): (7,), (1, 1): (8, 8)})
    stock.logits[0][1][1, 5], stock.logits[0][1][1, 7] = 2.0, 1.5
    result = compare(stock, {(0, 0): (1, 2, 3), (1, 0): (4, 7, 6), (0, 1): (7,), (1, 1): (8, 8)})
    (split,) = result.splits
    assert (split.session, split.turn, split.step, split.stock, split.other) == (1, 0, 1, 5, 7)
    assert split.margin == 0.5
    # The second turn of that session answers another text: it is not compared.
    assert (result.same, result.total) == (5, 9)


@pytest.mark.parametrize(
    ("mine", "other", "tokens"),
    [((1, 2), (1,), (2, ENDED)), ((1,), (1, 2), (ENDED, 2)), ((1,), (), (1, ENDED))],
)
def test_an_answer_of_another_length_is_another(mine, other, tokens):
    result = compare(stock_of({(0, 0): mine}), {(0, 0): other})
    (split,) = result.splits
    assert (split.stock, split.other) == tokens and split.margin is None
    assert split.step == min(len(mine), len(other)) == result.same


def test_an_answer_that_is_missing_is_a_difference():
    assert not compare(stock_of({(0, 0): (1,), (1, 0): (2,)}), {(0, 0): (1,)}).identical
