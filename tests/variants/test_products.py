"""The plans of every shipped target, found from its YAML alone, beside their golden text.

After a deliberate change of a lane map, refresh the file with

    UPDATE_EXPECTED=1 pytest tests/variants/test_products.py

and read the difference.
"""

import os
from pathlib import Path

import pytest

from kgen.diagnostics import KgenError
from kgen.spec.load import load_catalog
from kgen.targets.instructions import instructions
from kgen.variants.loads import key_fragment, value_fragment
from kgen.variants.operand import candidates, plan_operands
from kgen.variants.products import plan_products, plans_of, products_of
from tests.variants.test_operand import KNOWN, MFMA16, MFMA32, MMA_SYNC, MMAC, check_plan

GOLDEN = Path(__file__).parent / "products.golden"
TARGETS = {name: target for name, target in load_catalog().targets.items() if target.family != "cpu"}
EVERY = [(target, one) for target in TARGETS.values() for one in instructions(target).values()]
IDS = [f"{target.name}-{one.name}" for target, one in EVERY]


def golden_text() -> str:
    parts = []
    for target in TARGETS.values():
        parts.append(f"{target.name}\n" + "=" * len(target.name))
        parts += [plans_of(one) for one in instructions(target).values()]
    return "\n\n".join(parts) + "\n"


def test_plans_are_the_golden_ones():
    text = golden_text()
    if os.environ.get("UPDATE_EXPECTED") == "1":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize(("target", "one"), EVERY, ids=IDS)
def test_every_target_keeps_p_in_registers_and_loads_16_bytes(target, one):
    plan = products_of(one)
    assert plan.operands.form == "registers" and plan.operands.aligned
    check_plan(one, plan.operands)
    assert plan.scores is not None and plan.values is not None
    for lane, cells in enumerate(key_fragment(one, plan.operands).cells):
        needed = [plan.scores.dims[step][k] for step in range(plan.scores.steps) for _, k in cells]
        first = plan.scores.starts[lane]
        assert needed == list(range(first, first + plan.scores.vector))
    for lane, cells in enumerate(value_fragment(one, plan.operands).cells):
        first = plan.values.starts[lane]
        for _, column in cells:
            needed = [dims[column] for dims in plan.values.dims]
            assert needed == list(range(first, first + plan.values.vector))


def test_every_form_of_every_target_is_sound():
    for _, one in EVERY:
        for plan in candidates(one):
            if plan.form == "registers":
                check_plan(one, plan)


@pytest.mark.parametrize(
    ("target", "name", "by_hand"),
    [
        ("gfx90a", "mfma_f32_16x16x16_f16", MFMA16),
        ("gfx942", "mfma_f32_32x32x8_bf16", MFMA32),
        ("gfx928", "mmac_f32_16x16x16_f16", MMAC),
        ("gfx936", "mmac_f32_16x16x16_bf16", MMAC),
        ("sm_80", "mma_m16n8k16_f16", MMA_SYNC),
        ("sm_90", "mma_m16n8k16_bf16", MMA_SYNC),
    ],
)
def test_the_known_forms(target, name, by_hand):
    plan = plan_products(TARGETS[target], "", name)
    assert plan.operands == plan_operands(by_hand)
    assert (plan.instruction.a, plan.instruction.b, plan.instruction.d) == (by_hand.a, by_hand.b, by_hand.d)


@pytest.mark.parametrize(
    ("target", "dtype", "name"),
    [
        ("gfx90a", "f16", "mfma_f32_16x16x16_f16"),
        ("gfx942", "bf16", "mfma_f32_16x16x16_bf16"),
        ("gfx936", "f16", "mmac_f32_16x16x16_f16"),
        ("gfx938", "bf16", "mmac_f32_16x16x16_bf16_lit"),
        ("gfx938", "fp8", "mmac_f32_16x16x32_fp8"),
        ("sm_90", "f16", "mma_m16n8k16_f16"),
    ],
)
def test_the_instruction_that_is_chosen(target, dtype, name):
    plan = plan_products(TARGETS[target], dtype)
    assert plan is not None and plan.instruction.name == name


def test_no_instruction_no_plan():
    assert plan_products(TARGETS["gfx90a"], "fp8") is None
    assert plan_products(load_catalog().targets["cpu_avx2"], "f16") is None
    with pytest.raises(KgenError, match="sm_80 has no matrix instruction 'mma'"):
        plan_products(TARGETS["sm_80"], "f16", "mma")


def test_the_lambdas_are_all_shipped():
    shipped = [(one.a, one.b, one.d) for _, one in EVERY]
    assert all((one.a, one.b, one.d) in shipped for one in KNOWN)
