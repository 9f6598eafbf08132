"""Renumbered dims: every load is one run of memory, and both products stay what they were."""

import pytest

from kgen.variants.loads import key_fragment, plan_score_loads, plan_value_loads, value_fragment
from kgen.variants.operand import plan_operands
from tests.variants.test_operand import KNOWN, MFMA16, MMA_SYNC


@pytest.mark.parametrize("instruction", KNOWN, ids=lambda i: i.name)
def test_a_lane_reads_consecutive_dims_of_one_token(instruction):
    plan = plan_operands(instruction)
    loads = plan_score_loads(instruction, plan, 8)
    for lane, cells in enumerate(key_fragment(instruction, plan).cells):
        needed = [loads.dims[step][k] for step in range(loads.steps) for _, k in cells]
        assert needed == list(range(loads.starts[lane], loads.starts[lane] + 8))


@pytest.mark.parametrize("instruction", KNOWN, ids=lambda i: i.name)
def test_score_dims_are_a_permutation_of_the_chunk(instruction):
    loads = plan_score_loads(instruction, plan_operands(instruction), 8)
    assert sorted(d for step in loads.dims for d in step) == list(range(loads.chunk))


@pytest.mark.parametrize("instruction", KNOWN, ids=lambda i: i.name)
def test_a_lane_reads_consecutive_dims_of_a_value(instruction):
    plan = plan_operands(instruction)
    loads = plan_value_loads(instruction, plan, 8)
    for lane, cells in enumerate(value_fragment(instruction, plan).cells):
        for token in {row for row, _ in cells}:
            (column,) = {col for row, col in cells if row == token}
            needed = [loads.dims[tile][column] for tile in range(loads.tiles)]
            assert needed == list(range(loads.starts[lane], loads.starts[lane] + 8))
    assert sorted(d for tile in loads.dims for d in tile) == list(range(loads.chunk))


def test_known_figures():
    mfma = plan_score_loads(MFMA16, plan_operands(MFMA16), 8)
    assert (mfma.steps, mfma.chunk) == (2, 32)
    assert mfma.dims[0] == (0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
    assert plan_value_loads(MFMA16, plan_operands(MFMA16), 8).chunk == 128
    sync = plan_score_loads(MMA_SYNC, plan_operands(MMA_SYNC), 8)
    assert (sync.steps, sync.chunk) == (2, 32)
    assert plan_value_loads(MMA_SYNC, plan_operands(MMA_SYNC), 8).chunk == 64


def test_a_vector_that_does_not_divide_has_no_form():
    assert plan_score_loads(MFMA16, plan_operands(MFMA16), 6) is None
