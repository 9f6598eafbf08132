"""Reads of 8 x 8 tiles bring each lane the operands its instruction wants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kgen.spec.load import load_catalog
from kgen.targets.matrix import Fragment
from kgen.variants.loads import key_fragment, value_fragment
from kgen.variants.operand import OperandPlan
from kgen.variants.products import Products, plan_products
from kgen.variants.tiles import SIDE, TileLoads, plan_tiles

Cell = tuple[int, int]
LANES = range(32)


def planned(target: str, dtype: str = "bf16") -> Products:
    plan = plan_products(load_catalog().targets[target], dtype)
    assert plan is not None
    return plan


def read(loads: TileLoads, operand: int, transposed: bool) -> list[list[Cell]]:
    """What a chip hands out: of each lane the (token, dim) of the 8 elements it receives."""
    rows = [(loads.tokens[operand][lane], loads.dims[lane]) for lane in LANES]
    found = []
    for lane in LANES:
        got = []
        for e in range(8):
            across, down = 2 * (lane % 4) + e % 2, lane // 4
            row, col = (across, down) if transposed else (down, across)
            token, dim = rows[e // 2 * SIDE + row]
            got.append((token, dim + col))
        found.append(got)
    return found


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_keys_arrive_as_operands_of_tiles_of_scores_next_to_one_another(target: str, dtype: str) -> None:
    plan = planned(target, dtype)
    assert plan.tiles is not None
    keys, _ = plan.tiles
    wanted = key_fragment(plan.instruction, plan.operands)
    for lane, got in enumerate(read(keys, 0, transposed=False)):
        for output in range(keys.outputs):
            own = [(token + output * SIDE, dim) for token, dim in wanted.cells[lane]]
            assert got[output * wanted.elements : (output + 1) * wanted.elements] == own


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_values_arrive_as_operands_of_tiles_of_output_next_to_one_another(target: str) -> None:
    plan = planned(target)
    assert plan.tiles is not None
    _, values = plan.tiles
    wanted = value_fragment(plan.instruction, plan.operands)
    for operand in range(plan.operands.operands):
        tokens = plan.operands.tokens[operand * wanted.rows :]
        for lane, got in enumerate(read(values, operand, transposed=True)):
            for output in range(values.outputs):
                own = [(tokens[k], col + output * SIDE) for k, col in wanted.cells[lane]]
                assert got[output * wanted.elements : (output + 1) * wanted.elements] == own


@pytest.mark.parametrize("target", ["gfx936", "gfx942"])
def test_a_wave_of_64_lanes_has_no_such_reads(target: str) -> None:
    assert planned(target).tiles is None


def test_an_operand_that_is_dealt_out_otherwise_has_none() -> None:
    plan = planned("sm_90")
    one = plan.instruction
    swapped = Fragment(one.b.rows, one.b.cols, tuple(lane[::-1] for lane in one.b.cells))
    assert plan_tiles(replace(one, b=swapped), plan.operands) is None
    shuffled: OperandPlan = replace(plan.operands, tokens=plan.operands.tokens[::-1])
    assert plan_tiles(one, shuffled) is None
