"""The operand plan finds the known forms from the lane maps alone."""

from kgen.targets.matrix import Fragment, MatrixInstruction, fragment
from kgen.variants.operand import OperandPlan, candidates, plan_operands, tiled


def make(name, wave, mnk, a, b, d, elements):
    m, n, k = mnk
    return MatrixInstruction(
        name,
        "f16",
        fragment(wave, elements[0], m, k, a),
        fragment(wave, elements[1], k, n, b),
        fragment(wave, elements[2], m, n, d),
    )


MFMA16 = make(
    "mfma_16x16x16", 64, (16, 16, 16),
    lambda n, e: (n % 16, n // 16 * 4 + e),
    lambda n, e: (n // 16 * 4 + e, n % 16),
    lambda n, e: (4 * (n // 16) + e, n % 16),
    (4, 4, 4),
)  # fmt: skip
MFMA32 = make(
    "mfma_32x32x8", 64, (32, 32, 8),
    lambda n, e: (n % 32, 4 * (n // 32) + e),
    lambda n, e: (4 * (n // 32) + e, n % 32),
    lambda n, e: (8 * (e // 4) + 4 * (n // 32) + e % 4, n % 32),
    (4, 4, 16),
)  # fmt: skip
MMAC = make(
    "mmac_16x16x16", 64, (16, 16, 16),
    lambda n, e: (n % 16, n // 16 * 4 + e),
    lambda n, e: (n // 16 * 4 + e, n % 16),
    lambda n, e: (n % 16, n // 16 + 4 * e),
    (4, 4, 4),
)  # fmt: skip
MMA_SYNC = make(
    "mma_m16n8k16", 32, (16, 8, 16),
    lambda n, e: (n // 4 + 8 * (e // 2 % 2), n % 4 * 2 + e % 2 + 8 * (e // 4)),
    lambda n, e: (n % 4 * 2 + e % 2 + 8 * (e // 2), n // 4),
    lambda n, e: (n // 4 + 8 * (e // 2), n % 4 * 2 + e % 2),
    (8, 4, 4),
)  # fmt: skip
KNOWN = (MFMA16, MFMA32, MMAC, MMA_SYNC)


def check_plan(instruction: MatrixInstruction, plan: OperandPlan) -> None:
    """Carry every probability through the moves and see that it arrives as (query, summed k)."""
    produced = instruction.d if plan.orientation == "S" else instruction.d.transposed()
    consumed = instruction.a if plan.side == "A" else instruction.b.transposed()
    source = tiled(produced, plan.queries, len(plan.tokens))
    sink = tiled(consumed, plan.queries, len(plan.tokens))
    for lane in range(instruction.wave):
        for o, operand in enumerate(plan.moves):
            for e, (tile, element) in enumerate(operand):
                query, token = source.cells[lane][tile * produced.elements + element]
                needed_query, k = sink.cells[lane][o * consumed.elements + e]
                assert (query, token) == (needed_query, plan.tokens[k])
    assert sorted(plan.tokens) == list(range(len(plan.tokens)))


def test_known_maps_are_bijections():
    for instruction in KNOWN:
        for operand in (instruction.a, instruction.b, instruction.d):
            assert operand.faults() == ()


def test_faults_name_the_cells():
    broken = Fragment(1, 3, (((0, 0),), ((0, 0),), ((0, 5),)))
    assert broken.faults() == (
        "(0, 5) lie outside 1 x 3",
        "(0, 1), (0, 2) are held by no lane",
        "(0, 0) are held more than once",
    )


def test_mmac_takes_scores_as_a_with_strided_tokens():
    plan = plan_operands(MMAC)
    assert (plan.form, plan.orientation, plan.side) == ("registers", "S", "A")
    assert plan.tokens == tuple(k // 4 + 4 * (k % 4) for k in range(16))
    assert (plan.accumulators, plan.operands, plan.aligned) == (1, 1, True)
    check_plan(MMAC, plan)


def test_mfma_takes_transposed_scores_as_b_unpermuted():
    plan = plan_operands(MFMA16)
    assert (plan.form, plan.orientation, plan.side) == ("registers", "St", "B")
    assert plan.identity and plan.aligned
    assert plan.moves == (((0, 0), (0, 1), (0, 2), (0, 3)),)
    check_plan(MFMA16, plan)


def test_mfma_32_fills_four_operands_from_one_accumulator():
    plan = plan_operands(MFMA32)
    assert (plan.form, plan.orientation, plan.side) == ("registers", "St", "B")
    assert (plan.accumulators, plan.operands) == (1, 4)
    assert plan.identity and plan.aligned
    check_plan(MFMA32, plan)


def test_mma_sync_joins_two_tiles_into_an_operand():
    plan = plan_operands(MMA_SYNC)
    assert (plan.form, plan.orientation, plan.side) == ("registers", "S", "A")
    assert (plan.accumulators, plan.operands) == (2, 1)
    assert plan.moves == (((0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)),)
    assert plan.identity and plan.aligned
    check_plan(MMA_SYNC, plan)


def test_every_candidate_is_sound():
    for instruction in KNOWN:
        forms = [plan for plan in candidates(instruction) if plan.form == "registers"]
        assert forms
        for plan in forms:
            check_plan(instruction, plan)


def test_an_invented_instruction_gets_its_own_plan():
    """Tokens dealt out bit-reversed in D: a permutation no known chip needs."""
    reversed_bits = [0, 2, 1, 3]
    invented = make(
        "invented", 16, (8, 8, 8),
        lambda n, e: (n % 8, n // 8 * 4 + e),
        lambda n, e: (n // 8 * 4 + e, n % 8),
        lambda n, e: (n % 8, n // 8 + 2 * reversed_bits[e]),
        (4, 4, 4),
    )  # fmt: skip
    plan = plan_operands(invented)
    assert plan.form == "registers"
    check_plan(invented, plan)
    assert not plan.identity


def test_no_register_form_falls_back_to_lds():
    """D keeps queries in lanes where neither operand can find them."""
    scattered = make(
        "scattered", 16, (8, 8, 8),
        lambda n, e: (n % 8, n // 8 * 4 + e),
        lambda n, e: (n // 8 * 4 + e, n % 8),
        lambda n, e: (n // 4 * 2 + e // 2, n % 4 * 2 + e % 2),
        (4, 4, 4),
    )  # fmt: skip
    assert scattered.d.faults() == ()
    assert plan_operands(scattered).form == "lds"
