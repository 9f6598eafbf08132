"""Every kind of fault is caught at its line, with the kernel, the block and the thread."""

import pytest
import torch

from tests.sim import simulated

FAULT = 7
CASES = {  # kernel: (block, thread or None for any, part of the message)
    "steps_a_window_astray": (0, 0, "a window stepped by -8 to element 16 instead of 17"),
    "leaves_memory_through_a_window": (0, 0, "out-of-range global read of 4 element(s) at 4096 of 4096"),
    "reads_past_the_end": (1, 72, "out-of-range global read of 1 element(s) at 4096 of 4096"),
    "writes_before_the_start": (0, 3, "out-of-range global write of 1 element(s) at -1 of 4096"),
    "reads_half_past_the_end": (0, 0, "out-of-range global read of 4 element(s) at 4093 of 4096"),
    "reads_misaligned": (0, 0, "misaligned global read: element 1 is not on a multiple of 16 bytes"),
    "reads_what_is_absent": (0, 0, "global read of an absent tensor"),
    "reads_uninitialised_lds": (0, 9, "uninitialised LDS read of byte 36"),
    "reads_lds_of_the_block_before": (1, 0, "uninitialised LDS read of byte 0"),
    "reads_past_its_lds_array": (0, 127, "out-of-range LDS write of 1 element(s) at 128 of 128"),
    "carves_past_the_lds": (0, 0, "an LDS array ends at byte 1028 of 1024"),
    "reads_before_its_lds_array": (0, 0, "out-of-range LDS read of 1 element(s) at -1 of 16384"),
    "limits_a_window": (0, 0, "a window steps by pages that are 1099511627776 elements apart"),
    "reads_by_a_uniform_place": (0, 70, "load_uniform: lane 0 reads element 3, this lane 4"),
    "declares_too_much_lds": (0, 0, "LDS of 65537 bytes; the target has 65536"),
    "reads_what_another_wave_writes": (0, 64, "LDS race, read after write: byte 0 was touched by thread 0"),
    "writes_what_another_wave_reads": (0, 64, "LDS race, write after read: byte 0 was touched by thread 0"),
    "writes_what_two_others_read": (0, 2, "LDS race, write after read: byte 0 was touched by thread 1"),
    "writes_twice_from_two_waves": (0, 64, "LDS race, write after write: byte 0 was touched by thread 0"),
    "reads_a_neighbour_without_wave_sync": (0, None, "LDS race, read after write"),
    "skips_a_barrier": (0, 0, "divergent block_sync: thread 100 is at the end of the kernel"),
    "leaves_before_a_barrier": (0, 0, "divergent block_sync: thread 127 is at the end of the kernel"),
    "waits_at_two_barriers": (0, 0, "divergent block_sync: thread 64 is at block_sync, line"),
    "shuffles_with_half_a_wave": (0, 0, "divergent shuffle: thread 32 is at the end of the kernel"),
    "asks_for_its_wave_in_one_lane": (0, 0, "divergent wave_id: thread 1 is at the end of the kernel"),
    "shuffles_a_different_number_of_times": (
        0,
        1,
        "divergent shuffle_xor: thread 0 is at the end of the kernel",
    ),
    "shuffles_across_a_barrier": (0, 0, "divergent shuffle: thread 5 is at block_sync"),
    "shuffles_from_no_lane": (0, 0, "shuffle from lane 64 of 64"),
    "calls_a_sum_in_two_places": (0, 0, "divergent shuffle_xor: thread 1 is at shuffle_xor, line"),
    "claims_to_be_uniform": (0, 100, "uniform: lane 0 has 0, this lane 1"),
    "waits_for_a_box_nobody_brings": (
        0,
        0,
        "landing 1 never is over: 1 of 1 have spoken, 2048 bytes are due",
    ),
    "waits_for_a_speaker_too_many": (0, 0, "landing 0 never is over: 1 of 2 have spoken, 0 bytes are due"),
    "waits_for_a_round_that_is_long_over": (0, 0, "landing 0: round 0 is waited for when 2 are over"),
    "waits_for_a_round_that_has_not_begun": (0, 0, "landing 0: round 1 is waited for when 0 are over"),
    "speaks_twice": (0, 0, "landing 0: more than its 1 speakers"),
    "brings_more_than_it_said": (0, 0, "landing 0: more bytes come than are expected"),
    "brings_rows_past_the_last": (0, 0, "a box of rows 17 to 32 of 32"),
    "brings_a_box_off_its_place": (0, 0, "a box at byte 128 of LDS"),
    "reads_a_box_before_it_has_landed": (
        0,
        0,
        "LDS race, read after write: byte 0 comes in a box that was not waited for",
    ),
}


@pytest.mark.parametrize("kernel", CASES)
def test_fault_is_caught_where_it_is(kernels64, kernel, capfd):
    block, thread, message = CASES[kernel]
    answer = kernels64.call(kernel, torch.zeros(4096, dtype=torch.int32))
    line = simulated.fault_line(kernel)
    assert answer.code == FAULT and answer.error[0] == FAULT
    assert (answer.error[1], answer.error[3]) == (block, line)
    assert message in answer.message
    assert f"kernels.cpp:{line}: {kernel}, block ({block}, 0, 0), thread {answer.error[2]} " in answer.message
    if thread is not None:
        assert answer.error[2] == thread
    assert answer.message in capfd.readouterr().err


@pytest.mark.parametrize(
    "kernel", ["orders_lds_by_block_sync", "orders_lds_by_wave_sync", "declares_all_the_lds"]
)
def test_what_is_ordered_is_no_fault(kernels, kernel):
    answer = kernels.call(kernel, torch.zeros(4096, dtype=torch.int32))
    assert (answer.code, answer.message) == (0, "")


def test_a_fault_is_forgotten_by_the_next_call(kernels64):
    assert kernels64.call("skips_a_barrier", torch.zeros(4096)).code == FAULT
    assert kernels64.call("exchanges", torch.zeros(4096)).code == 0
