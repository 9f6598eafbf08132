"""Plans by range: a scalar that grows makes no plan a step, and never uses one past its range."""

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from kgen.dispatch.model import Bound
from kgen.dispatch.ranges import plan_ranges
from kgen.dispatch.select import complete, on_target, select
from kgen.semantics import INT_MAX, INT_MIN
from kgen.tuning import TunedClass, TuningTable
from tests.dispatch.test_launch import arguments, words_of
from tests.dispatch.toy import OPERATOR, POLICY, toy_dispatcher


class Counted:
    """A caller of the toy that counts the plans made for it."""

    def __init__(self, compiler, monkeypatch):
        dispatcher = toy_dispatcher(compiler, {}, {"partition_size": 512})
        self.plans = 0
        make = dispatcher.plan

        def plan(*given):
            self.plans += 1
            return make(*given)

        monkeypatch.setattr(dispatcher, "plan", plan)
        self.call = dispatcher.caller(OPERATOR)

    def words(self, **changes):
        return words_of(self.call, arguments(**changes))


@pytest.fixture
def counted(compiler, monkeypatch):
    return Counted(compiler, monkeypatch)


def test_one_plan_serves_a_whole_range(counted):
    for limit in (101, 102, 300, 512, 511, 101):
        seen = counted.words(limit=limit)
        assert (seen["limit"], seen["num_parts"]) == (limit, 1)
    assert counted.plans == 1
    for limit in (513, 1024, 600):
        seen = counted.words(limit=limit)
        assert (seen["limit"], seen["num_parts"]) == (limit, 2)
    assert counted.plans == 2
    assert [counted.words(limit=limit)["num_parts"] for limit in (512, 1024, 1025, 513)] == [1, 2, 3, 2]
    assert counted.plans == 3


def test_a_range_ends_where_a_rule_wants_something_else(counted):
    assert [counted.words(limit=limit)["sums"] for limit in (0, 100, 50)] == [0, 0, 0]
    assert counted.plans == 1
    assert counted.words(limit=101)["sums"] != 0
    assert counted.words(limit=100)["sums"] == 0
    assert counted.plans == 2


def test_a_guard_is_no_part_of_a_range(counted):
    counted.words(limit=0)
    with pytest.raises(KgenError, match="limit is a length"):
        counted.call(*arguments(limit=-1).values())


def test_a_scalar_that_nothing_looks_at_needs_no_plan(counted):
    for scale in (0.5, None, 0.25, None):
        counted.words(scale=scale)
    assert counted.plans == 2  # given, and left out


def test_a_tuning_table_keeps_plans_for_its_ranges(compiler, monkeypatch):
    tuned = TunedClass({"num_heads": 8}, {"limit": (300, 400)}, {"partition_size": 0}, where="table:5:3")
    compiler.tables = (TuningTable("toy", "toy", "", (tuned,)),)
    counted = Counted(compiler, monkeypatch)
    assert [counted.words(limit=limit)["sums"] != 0 for limit in (300, 400, 350)] == [False] * 3
    assert counted.plans == 1
    assert [counted.words(limit=limit)["sums"] != 0 for limit in (299, 101, 150)] == [True] * 3
    assert counted.plans == 2
    assert [counted.words(limit=limit)["sums"] != 0 for limit in (401, 512, 420)] == [True] * 3
    assert counted.plans == 3
    assert counted.words(limit=100)["sums"] == 0  # by the rule, as below every range
    assert counted.plans == 4


def ranges_of(defaults=OPERATOR.defaults, policy=POLICY, scale=None, requested=(), **names):
    names = {"num_rows": 3, "num_heads": 8, "num_kv_heads": 2, "num_blocks": 5, "num_words": 9, **names}
    fixed = {"dtype": "f32", "head_dim": 8, "block_size": 16, "layout": "bshd", "limit": 700, "fail": 0}
    scalars = {"scale": scale, "limit": names.get("limit", 700), "fail": 0}
    bound = Bound({**fixed, **names}, dict(requested), {}, scalars, frozenset(), "cpu")
    bound = Bound(complete(policy, bound.names, "toy"), bound.requested, {}, scalars, frozenset(), "cpu")
    return plan_ranges(policy, bound, select(policy, bound, (), jit=True), defaults)


def test_what_a_call_insists_on_narrows_nothing():
    every = (INT_MIN, INT_MAX)
    assert ranges_of() == {"limit": (513, 1024), "fail": every}
    assert ranges_of(requested={"partition_size": 0}) == {"limit": (0, INT_MAX), "fail": every}
    assert ranges_of(limit=100)["limit"] == (0, 100)


def test_a_default_that_asks_for_a_scalar_pins_it():
    assert ranges_of({"scale": lambda names: names["limit"] / 2})["limit"] == (700, 700)
    assert ranges_of({"scale": lambda names: names["limit"] / 2}, scale=0.5)["limit"] == (513, 1024)


def decode_ranges(max_seq_len, num_seqs, policy_name):
    """The ranges of max_seq_len in decode with 8 heads of queries and 2 of keys."""
    policy = ops.dispatcher().policy("paged_attention")
    sizes = {"num_seqs": num_seqs, "num_heads": 8, "num_kv_heads": 2, "num_blocks": 9, "max_pages": 9}
    kinds = {"dtype": "f32", "kv_dtype": "f32", "head_dim": 64, "block_size": 16, "layout": "bshd"}
    scalars = {"softmax_scale": None, "max_seq_len": max_seq_len}
    names = complete(policy, {**sizes, **kinds, "max_seq_len": max_seq_len}, "sim:sm_90")
    names = on_target(policy, names, "sim:sm_90")
    bound = Bound(names, {}, {}, scalars, frozenset(), "cpu", policy_name)
    selection = select(policy, bound, (), jit=True)
    return plan_ranges(policy, bound, selection, {})["max_seq_len"]


@pytest.mark.parametrize(
    ("length", "num_seqs", "where"),
    [
        (1, 1, (0, 512)),
        (600, 1, (513, 1024)),
        (1025, 1, (1025, 1536)),
        (600, 65, (513, 8192)),
        (9000, 65, (8705, 9216)),
        (8193, 65, (8193, 8704)),
    ],
)
def test_the_ranges_of_decode(length, num_seqs, where):
    assert decode_ranges(length, num_seqs, "vllm") == where


@pytest.mark.parametrize(
    ("length", "num_seqs", "where"),
    [
        (256, 1, (0, 256)),
        (60_000, 5, (59_393, 61_440)),
        (60_000, 132, (257, INT_MAX)),
    ],  # 2048 a part; one pass
)
def test_the_ranges_of_decode_under_a_policy_that_asks_the_target(length, num_seqs, where):
    assert decode_ranges(length, num_seqs, "balanced") == where


def test_lengths_may_come_in_any_order(counted):
    lengths = torch.randint(101, 4096, (200,), generator=torch.Generator().manual_seed(2)).tolist()
    for limit in lengths:
        seen = counted.words(limit=limit)
        assert (seen["limit"], seen["num_parts"]) == (limit, -(-limit // 512))
    assert counted.plans == len({-(-limit // 512) for limit in lengths})
