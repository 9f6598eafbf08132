"""The tiles of a mask, counted and drawn."""

import numpy as np
import pytest
import torch

from kgen.diagnostics import KgenError
from kgen.masks.draw import EMPTY, FULL, PARTIAL, Grid, draw, tile_map
from kgen.testing.masks import over
from tests.masks.mask_samples import shared

CONVEX = {
    "none": {},
    "causal": {},
    "sliding": {"window": 37},
    "window": {"left": 20, "right": 9},
    "prefix_lm": {"prefix": [45]},
    "chunked": {"chunk": 24},
}
"""Masks of which every row is one run of keys, with arguments."""


def test_the_picture_of_the_example():
    assert draw(tile_map(shared()["causal"], Grid(3, 7, 2, 2), {})) == (
        "  q 4..5  ##+.\n  q 6..6  ###+\n  # full 5, + partial 2, . empty 1 of 8 tiles"
    )


@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("grid", [Grid(48, 100, 8, 16), Grid(60, 60, 7, 5), Grid(30, 20, 4, 4)])
def test_nothing_is_tested_or_looked_at_for_no_reason(name: str, grid: Grid):
    """Every whole tile that is visible throughout is full, and every tile that is not is empty."""
    args = CONVEX[name]
    q = np.arange(grid.q_len)[:, None] + grid.kv_len - grid.q_len
    kv = np.arange(grid.kv_len)[None, :]
    mask = shared()[name].mask
    sees = np.ones((grid.q_len, grid.kv_len), bool)
    if mask is not None:
        sees = over(mask, {**args, "q": torch.from_numpy(q), "kv": torch.from_numpy(kv), "batch": 0}).numpy()
    for row, kinds in enumerate(tile_map(shared()[name], grid, args).rows):
        queries = sees[row * grid.block_m : (row + 1) * grid.block_m]
        for column, kind in enumerate(kinds):
            pairs = queries[:, column * grid.block_n : (column + 1) * grid.block_n]
            whole = pairs.all() and pairs.shape[1] == grid.block_n
            assert kind == (FULL if whole else PARTIAL if pairs.any() else EMPTY), (row, column)


def test_no_shape_is_no_tile():
    assert draw(tile_map(shared()["causal"], Grid(0, 0, 4, 4), {})).startswith("  # full 0")


def test_what_cannot_be_read_is_refused():
    with pytest.raises(KgenError, match="--block-n 7"):
        draw(tile_map(shared()["causal"], Grid(1, 1000, 1, 1), {}))


def test_an_argument_that_is_missing_is_told():
    with pytest.raises(KgenError, match="window"):
        tile_map(shared()["sliding"], Grid(4, 4, 1, 1), {})
