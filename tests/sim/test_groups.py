"""Products of groups on the simulator: what they compute, and what it stops."""

import re

import pytest
import torch

from tests.sim import simulated

SOURCE = simulated.SOURCE.with_name("groups.cpp")
FAULTY = {
    "uses_sums_before_the_wait": "sums are used while a product is under way",
    "uses_sums_the_wait_does_not_name": "sums are used while a product is under way",
    "waits_for_too_few_batches": "a product of these sums may be under way still",
    "multiplies_without_begin": "there was no products_begin since the last batch",
    "multiplies_sums_that_begin_was_not_told": "its sums are not among what products_begin was told",
    "changes_sums_after_begin": "its sums are not among what products_begin was told",
    "changes_an_operand_after_begin": "its operand is not as products_begin was told",
    "changes_an_operand_under_way": "an operand has changed while a product was under way",
    "stores_over_an_operand_under_way": "write while a product reads: byte 0, for wave 0 of group 0",
    "stores_before_all_waves_have_waited": "write while a product reads: byte 0, for wave 1 of group 0",
    "stores_where_another_group_has_multiplied": "LDS race, write after a product: wave 0 of group 0",
    "brings_a_box_where_another_group_has_multiplied": "LDS race, write after a product: wave 0 of group 0",
    "multiplies_what_has_not_landed": "read after write: byte 16384 comes in a box that was not waited for",
    "multiplies_without_engine_fence": "which thread 0 stored without engine_fence",
    "multiplies_what_another_wave_has_stored": "LDS race, read after write: byte 0 was touched by thread 0",
    "multiplies_past_the_array": "an operand reaches byte 24576 of LDS, past its array of 24576",
    "multiplies_rows_off_their_place": "an operand of rows at byte 16512 of LDS",
    "multiplies_columns_off_their_place": "an operand of columns at byte 24608 of LDS",
    "multiplies_with_three_waves": "divergent multiply: thread 96 is at the end of the kernel",
    "names_operands_by_the_lane": "thread 1 of the group names other operands than its first",
    "meets_with_three_waves": "group_sync never is over: 96 of 128 threads have come",
}
"""Kernels that must be stopped, each at the line marked in groups.cpp, and what is said."""
PANEL = 64 * 64


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return simulated.compile_kernels(tmp_path_factory.mktemp("groups") / "groups.so", 32, source=SOURCE)


def operands():
    """Small integers, so that every sum is exact: 128 queries, 64 keys, and 64 values by two panels of 64
    dims; and room behind them."""
    generator = torch.Generator().manual_seed(5)
    halves = torch.randint(-2, 3, (5 * PANEL,), generator=generator).to(torch.float16)
    data = torch.full((5 * PANEL // 2 + 6 * PANEL,), 7.0)
    data[: 5 * PANEL // 2] = halves.view(torch.float32)
    rows = halves.float().view(5, 64, 64)
    return data, rows[:2].reshape(128, 64), rows[2], torch.cat((rows[3], rows[4]), dim=1)


@pytest.mark.parametrize("kernel", FAULTY)
def test_a_faulty_kernel_is_stopped_where_it_is_faulty(kernels, kernel):
    data, *_ = operands()
    answer = kernels.call(kernel, data)
    assert answer.code == 7, "it ran to its end"
    assert FAULTY[kernel] in answer.message
    assert re.search(rf"groups\.cpp:{simulated.fault_line(kernel, SOURCE)}:", answer.message)


def test_rows_and_columns_multiply_as_matrices_do(kernels):
    data, queries, keys, values = operands()
    answer = kernels.call("attends", data)
    assert answer.code == 0, answer.message
    scores = queries @ keys.T
    behind = data[5 * PANEL // 2 :]
    assert behind[: 2 * PANEL].view(128, 64).equal(scores)
    assert behind[2 * PANEL :].view(128, 128).equal(scores @ values + 1.0)


def test_operands_that_are_handed_over_may_be_replaced(kernels):
    data, queries, keys, _ = operands()
    answer = kernels.call("hands_operands_over", data)
    assert answer.code == 0, answer.message
    keys = torch.cat((queries[16:32], keys[16:]))
    assert data[5 * PANEL // 2 :][:PANEL].view(64, 64).equal(queries[:64] @ keys.T)
