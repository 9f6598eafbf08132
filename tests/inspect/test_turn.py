"""A turn of a loop: what is under way, what feeds addresses, how long it takes."""

import pytest

from kgen.inspect.code import Function, Instruction
from kgen.inspect.loops import find_loops
from kgen.inspect.turn import Wait, turn_of

CYCLES = {"v_mfma_f32_16x16x16_f16": 16}
PRODUCT = "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[4:5], v[0:3]"


def turn(*texts, cycles=CYCLES):
    """Of a loop of these instructions, which ends with a jump to its first."""
    code = [Instruction(4 * place, text) for place, text in enumerate(texts)]
    code += [
        Instruction(4 * len(texts), "s_cbranch_scc1 0", target=0),
        Instruction(4 * len(texts) + 4, "s_endpgm"),
    ]
    function = Function("f", tuple(code))
    (loop,) = find_loops(function)
    return turn_of(function, loop, cycles)


def load(register, address="v20", descriptor="s[8:11]"):
    return f"buffer_load_dwordx4 v[{register}:{register + 3}], {address}, {descriptor}, 0 offen"


def test_a_loop_that_waits_for_everything_keeps_nothing():
    found = turn(load(8), "s_waitcnt vmcnt(0)", PRODUCT)
    assert found.waits == (Wait(4, asked=1, left=0),)
    assert (found.matrix_loads, found.kept, found.loads) == ((0,), 0, (1, 0, 0, 0))


def test_loads_of_the_turn_before_are_counted():
    found = turn(load(12), load(16), "s_waitcnt vmcnt(2)", PRODUCT, "s_waitcnt lgkmcnt(0)")
    assert found.waits == (Wait(8, asked=4, left=2),)
    assert (found.matrix_loads, found.kept) == ((2,), 2)


def test_stores_and_counts_of_both_kinds_in_one_wait():
    found = turn(load(8), "global_store_dword v[0:1], v2, off", "s_waitcnt vmcnt(1) lgkmcnt(0)", PRODUCT)
    assert found.waits == (Wait(8, asked=3, left=1),)


def test_what_feeds_addresses_is_traced_round_the_loop():
    found = turn(
        load(8),
        "s_load_dword s4, s[2:3], s5 offset:0x0",
        "s_sub_i32 s6, s4, s7",  # feeds s8
        "s_add_u32 s8, s6, s8",
        "s_addc_u32 s9, s9, 0",  # by its carry
        "s_add_u32 s5, s5, 4",  # feeds the scalar load
        "v_add_u32_e32 v20, 1, v20",
        "v_add_u32_e32 v21, 1, v21",  # feeds none
        PRODUCT,
    )
    assert found.address == {"scalar": 4, "address": 1}


def test_what_a_load_brings_is_no_arithmetic():
    found = turn("s_add_u32 s30, s30, 1", "s_load_dword s20, s[30:31], 0x0", load(8, address="s20"), PRODUCT)
    assert found.address == {"scalar": 1}


def test_cycles_are_those_of_instructions_by_kind():
    assert turn(load(8), PRODUCT, "v_exp_f32_e32 v1, v2").cycles == 4 + 16 + 16 + 4
    assert turn(load(8), PRODUCT, cycles={}).cycles is None


@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_nothing_feeds_an_address_that_stays(kind):
    assert not turn(load(8), "s_add_i32 s1, s1, 1" if kind == "scalar" else "v_mov_b32_e32 v9, v10").address
