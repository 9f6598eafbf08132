"""Extents that grow and shrink from call to call: one plan, and everything right that follows from them."""

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from kgen.dispatch.arguments import view
from kgen.dispatch.extents import counted_extents, moving_extents
from kgen.dispatch.overlap import region
from kgen.metadata import SEPARATE
from kgen.tuning import TunedClass, TuningTable
from tests.dispatch.batch import close
from tests.dispatch.ragged import Ragged
from tests.dispatch.test_launch import arguments, words_of
from tests.dispatch.test_ranges import Counted
from tests.dispatch.toy import POLICY, WORDS


@pytest.fixture
def counted(compiler, monkeypatch):
    return Counted(compiler, monkeypatch)


def rows(count, **changes):
    """Arguments of the toy with so many rows."""
    return {"rows": count, "lse": torch.zeros(count, 8), **changes}


@pytest.mark.parametrize(
    ("op", "names"),
    [
        ("paged_attention", {"num_seqs"}),
        ("extend_attention", {"total_q", "num_indices"}),
        ("merge_states", {"num_rows"}),
        ("reshape_and_cache", {"num_tokens"}),
        ("copy_blocks", {"num_blocks", "num_pairs"}),
        ("swap_blocks", {"num_source_blocks", "num_blocks", "num_pairs"}),
    ],
)
def test_what_operators_count(op, names):
    found = counted_extents(ops.dispatcher().policy(op))
    assert set(found.values()) == names
    assert not found.keys() & {"k_cache", "v_cache", "k_scale", "v_scale", "qo_indptr", "kv_indptr"}


def test_extents_move_where_more_of_them_change_nothing_else():
    counted = counted_extents(POLICY)
    assert counted == {"echo": "num_words", "lse": "num_rows", "x": "num_rows"}
    wide, square = torch.zeros(4, 8, 24), torch.zeros(8, 4)

    def moving(x, lse=None, names=("num_rows",)):
        views = {"x": view(x), "lse": None if lse is None else view(lse)}
        found, free = moving_extents(counted, dict.fromkeys(names, x.shape[0]), views)
        assert found == dict.fromkeys(names, x.shape[0])
        return bool(free)

    assert moving(wide) and moving(wide[:, :3, :8]) and moving(wide[:2]) and moving(wide[::2])
    assert moving(wide, torch.zeros(4, 8)) and moving(wide[:, :1, :1])
    assert not moving(wide[:1]) and not moving(wide[:0])  # of one or none strides say nothing
    assert not moving(wide, square.T)  # rows of lse lie beside each other
    assert not moving(wide[:, :1, :1].expand(4, 1, 24)[:1].expand(4, 1, 24))
    assert not moving(wide.transpose(0, 1))


def test_one_plan_serves_any_number_of_rows(counted):
    for count in (3, 2, 50, 7, 300):
        seen = counted.words(**rows(count))
        assert (seen["num_rows"], seen["x_stride_row"], seen["num_words"]) == (count, 64, len(WORDS))
    assert counted.plans == 1
    for count in (1, 0, 1):
        assert counted.words(**rows(count))["num_rows"] == count
    assert counted.plans == 3


def test_rows_and_lengths_that_meet_in_a_size_make_a_plan_for_each_number_of_rows(counted):
    for count, limit in ((3, 700), (3, 5000), (3, 1000), (9, 1000), (9, 6000)):
        seen = counted.words(**rows(count, limit=limit))
        parts = -(-limit // 512)
        assert (seen["num_rows"], seen["num_parts"]) == (count, parts)
        assert seen["sums"] - seen["parts"] == count * parts * 8 * 4
    assert counted.plans == 2


@pytest.mark.parametrize("exact", [{"num_rows": 3}, {"limit": 700}, {"num_rows": 3, "limit": 700}])
def test_a_tuning_table_may_ask_for_the_very_rows_and_lengths(compiler, monkeypatch, exact):
    """Of 3 rows and a limit of 700 it wants one pass, where the rule wants parts."""
    tuned = TunedClass({"num_heads": 8, **exact}, {}, {"partition_size": 0}, where="table:5:3")
    compiler.tables = (TuningTable("toy", "toy", "", (tuned,)),)
    counted = Counted(compiler, monkeypatch)
    asked = [(3, 700), (4, 700), (3, 701), (2, 900), (3, 700), (9, 700), (3, 800)]
    for count, limit in asked:
        here = {"num_rows": count, "limit": limit}
        seen = counted.words(**rows(count, limit=limit))
        assert (seen["sums"] == 0) == (exact.items() <= here.items()), here


def test_tensors_that_disagree_are_refused_whatever_was_planned_before(counted):
    for count in (3, 5):
        counted.words(**rows(count))
    for lse in (5, 0, 1):
        with pytest.raises(KgenError, match=f"lse axis row is {lse}; it must be 3|num_rows is"):
            counted.words(**rows(3, lse=torch.zeros(lse, 8)))
    with pytest.raises(KgenError, match="num_rows is"):
        counted.words(**rows(0, lse=torch.zeros(5, 8)))
    assert counted.words(**rows(5))["num_rows"] == 5


def test_memory_is_kept_apart_over_all_rows_of_the_call(counted):
    """The output lies behind the queries; with more rows these reach into it."""
    words = len(WORDS)
    memory = torch.zeros(4000)

    def call(count):
        x = memory[: count * 64].view(count, 8, 8)
        echo = memory[640 : 640 + 2 * words].view(torch.int64)
        return counted.call(*arguments(x=x, echo=echo, limit=100).values())

    assert call(4) and call(10)
    with pytest.raises(KgenError, match="echo is written and shares memory with x"):
        call(11)
    assert call(9)
    assert counted.plans == 1


def test_interleaved_rows_are_told_apart_by_their_strides_however_many_there_are(counted):
    fused = torch.zeros(40, 16, 8)
    echo = torch.zeros(len(WORDS), dtype=torch.int64)
    for count in (5, 40, 3):
        lse = fused[:count, 8:9].view(count, 8)
        values = arguments(x=fused[:count, :8], lse=lse, echo=echo, limit=100)
        assert words_of(counted.call, values)["num_rows"] == count
    assert counted.plans == 1
    with pytest.raises(KgenError, match="lse is written and shares memory with x"):
        counted.call(*arguments(x=fused[:9, :8], lse=fused[:9, 7:8].view(9, 8), echo=echo).values())


@pytest.mark.parametrize("shape", [(6, 8, 24), (6, 1, 24), (6, 8, 1), (6, 1, 1), (6,)])
@pytest.mark.parametrize("step", [1, 2])
def test_the_bytes_of_a_tensor_with_another_extent(shape, step):
    base = torch.zeros(6 * step, *shape[1:])[::step]
    here = region(view(base[:3]), "n")
    for count in (2, 3, 6):
        there = region(view(base[:count]))
        assert here.at(count).span == there.span == here.path.at(count)
        assert (here.at(count).run, here.at(count).repeats) == (there.run, there.repeats)


def test_extend_makes_one_plan_for_batches_of_any_lengths(launcher, fresh, monkeypatch):
    dispatcher = ops.dispatcher()
    plans, make = [], dispatcher.plan
    monkeypatch.setattr(dispatcher, "plan", lambda *given: plans.append(make(*given)) or plans[-1])
    for prefixes, new in (([20, 0, 5], [3, 40, 2]), ([70, 33, 1], [1, 1, 1]), ([0, 0, 300], [9, 8, 7])):
        made = Ragged(prefixes, new)
        for convention in ("pool", SEPARATE):
            k, v, batch = made.pool(convention)
            pools = [
                torch.cat([pool, pool.new_full((40 - len(pool), *pool.shape[1:]), torch.nan)])
                for pool in (k, v)
            ]
            new_keys = made.new_keys() if convention == SEPARATE else {}
            found = ops.extend_attention(made.q, *pools, batch, return_lse=True, **new_keys)
            for got, expected in zip(found, made.expected(), strict=True):
                close(got, expected)
    assert len(plans) == 2  # with new keys in the pool, and without
    assert plans[0].ranges["total_q"][0] == 2


def test_what_a_kernel_reports_names_the_extents_of_its_call(launcher, fresh):
    short, long = Ragged([20, 5], [3, 4]), Ragged([200, 50], [30, 4])
    k, v, batch = long.pool()
    ops.extend_attention(short.q, k, v, short.pool()[2])
    batch.kv_indptr[2] = 999
    with pytest.raises(KgenError, match=f"at most {batch.kv_indices.shape[0]}") as caught:
        ops.extend_attention(long.q, k, v, batch)
    assert "kv_indptr[2] is 999" in str(caught.value)
