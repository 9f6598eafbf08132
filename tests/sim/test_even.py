"""Decode in even shares: rows cut in many places or nowhere, many workers and few, in any order of blocks."""

import math

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from tests.dispatch.batch import BLOCK, HEAD_DIM, Batch, close
from tests.sim.even_call import EVEN, Call

ARCHES = ["sim:gfx90a", "sim:gfx928", "sim:gfx936", "sim:gfx938", "sim:gfx942", "sim:sm_80", "sim:sm_90"]
RAGGED = [5, 2500, 0, 64, 1, 300, 700, 0]
TOLERANCE = 8e-3  # weights and results are rounded to bf16


@pytest.fixture
def backwards():
    """Makes a library run the blocks of a grid from the last to the first."""
    turned = []

    def turn(library):
        library.kgen_sim_backwards(1)
        turned.append(library)

    yield turn
    for library in turned:
        library.kgen_sim_backwards(0)


@pytest.mark.parametrize("arch", ARCHES)
def test_few_workers_and_many_come_to_the_same(arch):
    batch = Batch(RAGGED, heads=12, kv_heads=2, dtype=torch.bfloat16)  # two passes of 4 and 2 heads
    call, (want, want_lse) = Call(batch, arch), batch.expected()
    for workers in (1, 2, 3, 7, 10, 31, 10**6):
        out, lse = call.run(workers)
        close(out, want, TOLERANCE)
        close(lse, want_lse, 1e-4)


@pytest.mark.parametrize(
    ("heads", "reuse", "head_dim"),
    [(65, 64, 64), (100, 128, 64), (260, 128, 64), (65, 128, 128), (64, 64, 192), (3, 64, 256)],
)
def test_teams_of_a_block_bring_their_rows_together_by_themselves(heads, reuse, head_dim, backwards):
    """Two teams, one of them with a few rows only, and passes in which one has none. The last row is in more
    pieces than are merged in one round where there are many workers; of five, one ends a row and others
    behind it."""
    batch = Batch([5, 1500, 0, 64, 129, 2900], heads, 1, torch.bfloat16, head_dim=head_dim)
    call, (want, want_lse) = Call(batch, "sim:sm_90", reuse), batch.expected()
    forwards = {workers: call.run(workers) for workers in (1, 3, 5, 10**6)}
    for out, lse in forwards.values():
        close(out, want, TOLERANCE)
        close(lse, want_lse, 1e-4)
    backwards(call.library())
    for workers, (out, lse) in forwards.items():
        again, lse_again = call.run(workers)
        assert torch.equal(out, again) and torch.equal(lse, lse_again)


@pytest.mark.parametrize(("heads", "pieces"), [(40, 2 * 40), (66, 0)])
def test_whole_rows_are_no_shares_where_they_leave_much_of_the_chip_idle(heads, pieces):
    """Of 132 blocks 3 fit each of 40 heads: 2 rows are cut, since 80 blocks were too few. 2 fit each of 66.
    Of the two pieces of a row, the one that comes last need not be written."""
    batch = Batch([600, 600], heads, heads, torch.bfloat16, head_dim=64)
    call = Call(batch, "sim:sm_90", 1)
    out, _ = call.run()
    close(out, batch.expected()[0], TOLERANCE)
    assert call.pieces() == pieces


def test_neighbours_count_the_pieces_of_their_rows_apart(backwards):
    """Each worker ends a row that it shares with the one before it, and begins one shared with the next."""
    batch = Batch([700, 640, 800, 705], 70, 1, torch.bfloat16, head_dim=64)
    call, (want, want_lse) = Call(batch, "sim:sm_90", 128), batch.expected()
    for _ in range(2):
        out, lse = call.run(5)
        close(out, want, TOLERANCE)
        close(lse, want_lse, 1e-4)
        backwards(call.library())


@pytest.mark.parametrize("reuse", [4, 16, 64])
@pytest.mark.parametrize("scale", [-0.5, 0.0])
def test_a_scale_of_either_sign(scale, reuse):
    """Where it is negative, the smallest product has the largest weight."""
    batch = Batch([5, 700, 0, 300], heads=reuse, kv_heads=1, dtype=torch.bfloat16)
    call, (want, want_lse) = Call(batch, "sim:sm_90", reuse, scale), batch.expected(scale)
    for workers in (1, 3):
        out, lse = call.run(workers)
        close(out, want, TOLERANCE)
        close(lse, want_lse, 1e-4)


@pytest.mark.parametrize(("heads", "reuse"), [(70, 128), (12, 16)])
@pytest.mark.parametrize("page", [0, 1, 2])
def test_faults_of_a_row_stay_with_it_where_others_follow_in_the_same_share(heads, reuse, page):
    """Whichever wave was to bring the page."""
    batch = Batch([300, 40, 500], heads=heads, kv_heads=1, dtype=torch.bfloat16)
    call = Call(batch, "sim:sm_90", reuse)
    want = call.run(1)
    call.library().kgen_sim_keep_writes(1)
    try:
        batch.block_table[1, page] = -1
        with pytest.raises(KgenError, match="block id -1"):
            call.run(1)
    finally:
        call.library().kgen_sim_keep_writes(0)
    assert call.out[1].isnan().all() and call.lse[1].isnan().all()
    for row in (0, 2):
        assert torch.equal(call.out[row], want[0][row]) and torch.equal(call.lse[row], want[1][row])


@pytest.mark.parametrize(("heads", "reuse"), [(70, 128), (12, 16), (4, 4)])
@pytest.mark.parametrize("length", [-1, 10**6])
def test_a_row_of_a_length_that_cannot_be_is_nan_and_no_other(heads, reuse, length):
    """As on a GPU, where what was written stays; it may be the first of a share, the last, or between."""
    for row in range(3):
        batch = Batch([300, 40, 500], heads=heads, kv_heads=1, dtype=torch.bfloat16)
        call = Call(batch, "sim:sm_90", reuse)
        want = call.run(1)
        call.library().kgen_sim_keep_writes(1)
        try:
            batch.seq_lens[row] = length
            with pytest.raises(KgenError, match=f"row {row}"):
                call.run(1)
        finally:
            call.library().kgen_sim_keep_writes(0)
        for other in range(3):
            for got, right in zip((call.out[other], call.lse[other]), (w[other] for w in want), strict=True):
                assert got.isnan().all() if other == row else torch.equal(got, right)


@pytest.mark.parametrize("arch", ["sim:gfx942", "sim:sm_90"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_order_of_blocks_changes_no_bit(arch, dtype, backwards):
    """Some rows have two pieces, the long one more than are merged in one round."""
    batch = Batch([9000, 3, 130, 700], heads=3, kv_heads=1, dtype=dtype)
    call = Call(batch, arch)
    forwards = [call.run(workers) for workers in (2, 9, 10**6)]
    backwards(call.library())
    for (out, lse), workers in zip(forwards, (2, 9, 10**6), strict=True):
        again, lse_again = call.run(workers)
        assert torch.equal(out, again) and torch.equal(lse, lse_again)
    close(forwards[-1][0], batch.expected()[0], TOLERANCE if dtype != torch.float32 else 1e-5)


@pytest.mark.parametrize("arch", ["sim:gfx936", "sim:sm_90"])
def test_more_rows_than_lanes(arch):
    lengths = [(37 * row) % 90 for row in range(300)]
    batch = Batch(lengths, heads=4, kv_heads=1, dtype=torch.bfloat16)
    call, (want, want_lse) = Call(batch, arch), batch.expected()
    for workers in (5, 10**6):
        out, lse = call.run(workers)
        close(out, want, TOLERANCE)
        close(lse, want_lse, 1e-4)


def test_rows_without_tokens_are_empty():
    call = Call(Batch([0, 0, 0], dtype=torch.bfloat16), "sim:sm_90")
    for workers in (1, 2, 10):
        out, lse = call.run(workers)
        assert not out.any() and lse.eq(-math.inf).all()


def test_a_fault_in_one_piece_of_a_row_leaves_no_count_behind():
    batch = Batch([3000, 40], dtype=torch.bfloat16)
    call = Call(batch, "sim:gfx942")
    want = call.run(6)
    page = int(batch.block_table[0, 100])
    for entry, length in ((-1, 3000), (page, -7), (page, 10**6)):
        batch.block_table[0, 100], batch.seq_lens[0] = entry, length
        with pytest.raises(KgenError, match=r"row 0"):
            call.run(6)
        assert call.out.isnan().all()  # nothing was written
        assert not call.zeros().any()
        batch.block_table[0, 100], batch.seq_lens[0] = page, 3000
        for one, other in zip(call.run(6), want, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("entry", [-1, 10**6])
def test_a_row_that_begins_with_a_bad_page_is_not_asked_for_ahead(entry):
    """The first tile of a row is asked for while the row before it ends."""
    call = Call(Batch([40, 300], dtype=torch.bfloat16), "sim:sm_90")
    call.batch.block_table[1, 0] = entry
    with pytest.raises(KgenError, match=f"block id {entry}"):
        call.run(1)


def test_every_piece_of_a_row_with_a_fault_is_nan(monkeypatch):
    """As on a GPU, where what was written stays."""
    batch = Batch([3000, 40], dtype=torch.bfloat16)
    call = Call(batch, "sim:sm_90")
    want = call.run(6)
    call.library().kgen_sim_keep_writes(1)
    try:
        batch.block_table[0, 100] = -1
        with pytest.raises(KgenError, match="block id -1"):
            call.run(6)
    finally:
        call.library().kgen_sim_keep_writes(0)
    assert call.out[0].isnan().all() and call.lse[0].isnan().all()
    assert torch.equal(call.out[1], want[0][1])
    assert not call.zeros().any()


@pytest.mark.parametrize("arch", ["sim:gfx936", "sim:sm_90"])
@pytest.mark.parametrize(
    ("variant", "args"),
    [("sliding", {"window": 200}), ("sinks", {"window": 100, "sinks": 70}), ("chunked", {"chunk": 512})],
)
def test_shares_are_of_visible_keys(arch, variant, args):
    """A page that no share needs is not looked at, and what is seen comes to the same as one pass."""
    batch = Batch([2000, 150, 3000, 1, 0], dtype=torch.float32)
    options = {
        "variant": variant,
        "variant_args": args,
        "arch": arch,
        "reuse_kv_times": 2,
        "return_lse": True,
    }
    want, want_lse = batch.run(**options, partition_size=0)
    if variant == "sliding":
        batch.block_table[2, : (3000 - 200) // BLOCK] = -1
    out, lse = batch.run(**options, partition_size=EVEN)
    close(out, want.double(), 1e-5)
    close(lse, want_lse.double(), 1e-5)


def test_the_workspace_does_not_grow_with_lengths():
    sizes = {"num_seqs": 64, "num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "block_size": 16}
    call = {**sizes, "dtype": "bf16", "layout": "bshd", "arch": "sim:sm_90", "reuse_kv_times": 4}
    found = {
        ops.workspace_size("paged_attention", **call, max_seq_len=longest, partition_size=EVEN)
        for longest in (4096, 131072)
    }
    assert found == {3 * 4 * 132 * 4 * (128 + 2) * 4}
    call |= {"num_heads": 128, "num_kv_heads": 1, "reuse_kv_times": 128}  # one block of a multiprocessor
    size = ops.workspace_size("paged_attention", **call, max_seq_len=4096, partition_size=EVEN)
    assert size == 3 * 132 * 128 * (128 + 2) * 4


def test_policy_even_is_for_gpus():
    batch = Batch([40])
    selected = {
        arch: ops.dispatcher().explain(
            "paged_attention",
            {
                "num_seqs": 1, "num_heads": 4, "num_kv_heads": 2, "head_dim": HEAD_DIM, "block_size": BLOCK,
                "dtype": "f32", "layout": "bshd", "max_seq_len": 40, "arch": arch, "policy": "even",
            },
        ).params["partition_size"]
        for arch in ("sim:sm_90", "cpu_generic")
    }  # fmt: skip
    assert selected == {"sim:sm_90": EVEN, "cpu_generic": 0}
    with pytest.raises(KgenError, match="on a CPU one pass deals rows out evenly to the threads already"):
        batch.run(partition_size=EVEN, arch="cpu_generic")
