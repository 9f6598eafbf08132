"""Comparing two decodings: what counts as the same, and how a difference is described."""

import torch

from kgen.demo.compare import compare
from kgen.demo.decode import Decoded

END = 9


def decoded(*prompts, logits=None):
    steps = len(prompts[0])
    return Decoded(prompts, logits or [torch.zeros(len(prompts), 10) for _ in range(steps)], 4, 1.0, 1.0)


def test_equal_runs_are_identical():
    result = compare(decoded([1, 2, 3], [4, 5, 6]), decoded([1, 2, 3], [4, 5, 6]), END)
    assert result.identical and (result.same, result.total) == (6, 6)


def test_what_follows_an_end_mark_does_not_count():
    result = compare(decoded([1, END, 3]), decoded([1, END, 4]), END)
    assert result.identical and (result.same, result.total) == (2, 2)
    assert not compare(decoded([1, END, 3]), decoded([1, END, 4]), None).identical


def test_a_difference_is_placed_and_its_margins_measured():
    mine = [torch.zeros(2, 10) for _ in range(3)]
    other = [torch.zeros(2, 10) for _ in range(3)]
    mine[1][1, 5], mine[1][1, 7] = 2.0, 1.5
    other[1][1, 5], other[1][1, 7] = 1.75, 2.0
    other[2] += 100.0  # after the difference the texts are not the same any more
    other[2][0] -= 100.0
    result = compare(
        decoded([1, 2, 3], [4, 5, 6], logits=mine), decoded([1, 2, 3], [4, 7, 6], logits=other), END
    )
    (split,) = result.splits
    assert (split.prompt, split.step, split.stock, split.paged) == (1, 1, 5, 7)
    assert (split.stock_margin, split.paged_margin) == (0.5, 0.25)
    assert (result.same, result.total, result.logit_error) == (4, 6, 0.5)
