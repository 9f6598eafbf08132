"""Races on device memory are stopped where they show, and what is ordered is not."""

import ctypes

import pytest
import torch

from tests.sim import simulated

SOURCE = simulated.SOURCE.with_name("races.cpp")
PIECES, RESULTS = 128, 128 + 3 * 128
READ, WRITE, LATE = (
    f"device memory race, {kind}: " for kind in ("read after write", "write after write", "write after read")
)
FIRST, LAST = "touched by thread 0 of block (0, 0, 0), ", "touched by thread 64 of block (0, 0, 0), "
SILENT = "which did not release it"
UNMET = "which released it, but no fetch_add of its block is known to come after that"
UNTOLD = "which announced it, but no fetch_add has told this block"
UNHEARD = "which announced it to this block, but this thread has not acquired it since"
MINE = "of this block, with no barrier between"
FAULTY = {  # kernel: (block, thread, what is said)
    "does_not_release": (1, 0, READ, f"element {PIECES} of data was {FIRST}{SILENT}"),
    "releases_in_one_wave": (1, 64, READ, f"element {PIECES + 64} of data was {LAST}{SILENT}"),
    "releases_by_the_thread_that_adds": (1, 1, READ, SILENT),
    "releases_before_it_writes": (1, 0, READ, FIRST + SILENT),
    "releases_after_it_has_added": (1, 0, READ, FIRST + UNMET),
    "adds_before_its_waves_have_met": (1, 1, READ, UNMET),
    "does_not_acquire": (1, 0, READ, FIRST + UNHEARD),
    "acquires_in_one_wave": (1, 64, READ, LAST + UNHEARD),
    "acquires_before_its_waves_have_met": (1, 1, READ, UNHEARD),
    "acquires_before_it_adds": (1, 0, READ, FIRST + UNHEARD),
    "reads_without_counting": (1, 0, READ, FIRST + UNTOLD),
    "adds_to_a_count_of_its_own": (1, 0, READ, FIRST + UNTOLD),
    "tells_by_compare_and_swap": (1, 0, READ, FIRST + UNMET),
    "tells_by_a_store": (1, 0, READ, "element 0 of data was " + FIRST + SILENT),
    "looks_at_a_count_without_adding": (1, 0, READ, "element 0 of data was " + FIRST + SILENT),
    "restarts_a_count_too_early": (
        2,
        0,
        "device memory race, addition after write: ",
        "element 0 of data was touched by thread 0 of block (1, 0, 0), which did not release it",
    ),
    "is_told_nothing_of_before_a_restart": (2, 0, READ, FIRST + UNTOLD),
    "passes_on_what_it_has_not_acquired": (2, 0, READ, FIRST + UNTOLD),
    "writes_what_another_block_reads": (2, 0, LATE, "touched by thread 0 of block (1, 0, 0), " + SILENT),
    "writes_what_another_block_writes": (
        1,
        0,
        WRITE,
        f"element {RESULTS + 127} of data was touched by thread 127 of block (0, 0, 0), {SILENT}",
    ),
    "reads_by_vectors_what_another_block_writes": (1, 0, READ, f"element {RESULTS + 7} of data was {FIRST}"),
    "reads_uniformly_what_it_has_written": (
        0,
        0,
        "load_uniform of what this launch writes: ",
        f"element {PIECES} of data was written by thread 0 of block (0, 0, 0)",
    ),
    "brings_a_box_of_what_it_has_written": (
        0,
        0,
        "a box of what this launch writes: element 0 of the memory at 0x",
        "was written by thread 0 of block (0, 0, 0)",
    ),
    "reads_what_another_wave_wrote": (0, 64, READ, f"touched by thread 0 {MINE}"),
    "reads_what_another_lane_wrote": (0, 0, READ, f"touched by thread 1 {MINE}"),
    "writes_in_place": (0, 1, LATE, f"element {PIECES + 1} of data was touched by thread 0 {MINE}"),
}
CLEAN = ["joins", "passes_on", "hands_memory_back", "writes_beside_another_block", "orders_by_barriers"]


@pytest.fixture(scope="module", params=[64, 32], ids=["wave64", "wave32"])
def library(request, tmp_path_factory):
    output = tmp_path_factory.mktemp("races") / "races.so"
    simulated.compile_library(output, f"-DKGEN_WAVE={request.param}", source=SOURCE)
    return ctypes.CDLL(str(output))


@pytest.fixture
def kernels(library):
    yield simulated.Kernels(library)
    library.kgen_sim_backwards(0)


@pytest.mark.parametrize("kernel", FAULTY)
def test_a_race_is_stopped_where_it_shows(kernels, kernel):
    block, thread, kind, told = FAULTY[kernel]
    answer = kernels.call(kernel, torch.zeros(4096, dtype=torch.int32))
    assert answer.code == 7, "it ran to its end"
    assert kind in answer.message and told in answer.message
    assert answer.error[1:] == (block, thread, simulated.fault_line(kernel, SOURCE))


def test_who_happens_to_be_last_is_found_in_the_other_order_of_blocks(library, kernels):
    data = torch.zeros(4096, dtype=torch.int32)
    assert kernels.call("does_not_look_at_the_count", data).code == 0
    library.kgen_sim_backwards(1)
    answer = kernels.call("does_not_look_at_the_count", data)
    assert (answer.code, answer.error[1:3]) == (7, (0, 0))
    told = f"element {PIECES} of data was touched by thread 0 of block (1, 0, 0), {SILENT}"
    assert LATE + told in answer.message


@pytest.mark.parametrize("kernel", CLEAN)
@pytest.mark.parametrize("backwards", [0, 1])
def test_what_is_ordered_is_no_race(library, kernels, kernel, backwards):
    if backwards and kernel in ("passes_on", "hands_memory_back"):
        pytest.skip("who tells whom depends on the order of blocks")
    library.kgen_sim_backwards(backwards)
    data = torch.zeros(4096, dtype=torch.int32)
    answer = kernels.call(kernel, data)
    assert (answer.code, answer.message) == (0, "")
    if kernel == "joins":
        assert data[RESULTS : RESULTS + 128].equal(3000 + 3 * torch.arange(128, dtype=torch.int32))
        assert data[0] == 0
