"""Plans by range: a scalar that grows makes no plan a step, and never uses one past its range."""

import random
from dataclasses import replace

import pytest
import torch

from kgen.diagnostics import KgenError
from kgen.dispatch.model import Bound
from kgen.dispatch.ranges import follow_decisions
from kgen.dispatch.select import complete, select
from kgen.semantics import INT_MAX, INT_MIN
from kgen.tuning import TunedClass, TuningTable
from tests.dispatch.figures import figures
from tests.dispatch.test_launch import arguments, words_of
from tests.dispatch.toy import BASE, OPERATOR, POLICY, toy_dispatcher


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
    assert [counted.words(limit=limit)["num_parts"] for limit in (512, 1024, 1025, 513)] == [1, 2, 3, 2]
    assert counted.plans == 1


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
    return follow_decisions(policy, bound, select(policy, bound, (), jit=True), defaults).intervals


def test_what_a_call_insists_on_narrows_nothing():
    every = (INT_MIN, INT_MAX)
    assert ranges_of() == {"limit": (101, INT_MAX), "fail": every}
    assert ranges_of(requested={"partition_size": 0}) == {"limit": (0, INT_MAX), "fail": every}
    assert ranges_of(limit=100)["limit"] == (0, 100)


def test_a_default_that_asks_for_a_scalar_pins_it():
    assert ranges_of({"scale": lambda names: names["limit"] / 2})["limit"] == (700, 700)
    assert ranges_of({"scale": lambda names: names["limit"] / 2}, scale=0.5)["limit"] == (101, INT_MAX)


DECODE = {"dtype": "bf16", "kv_dtype": "bf16", "head_dim": 64, "block_size": 16, "layout": "bshd"}
POOL = {"num_blocks": 9, "max_pages": 9}


def decode(length, num_seqs, policy, heads=(8, 2), arch="sim:sm_90", extents=()):
    """The figures of decode."""
    sizes = {"num_seqs": num_seqs, "num_heads": heads[0], "num_kv_heads": heads[1], **POOL, **DECODE}
    return figures("paged_attention", {"max_seq_len": length}, extents, policy=policy, arch=arch, **sizes)


@pytest.mark.parametrize(
    ("length", "num_seqs", "policy", "where"),
    [
        (1, 1, "vllm", (0, 512)),
        (600, 1, "vllm", (513, 8192)),
        (600, 65, "vllm", (513, 8192)),
        (9000, 65, "vllm", (8193, 512 * 65535)),  # as many parts as a grid has along z
        (256, 1, "balanced", (0, 256)),
        (60_000, 5, "balanced", (54_068, 108_134)),  # parts of 2048 tokens
        (60_000, 132, "balanced", (257, INT_MAX)),  # one pass
        (60_000, 5, "even", (0, 6_871_947_647)),  # as many tiles as 32 bits count
        (60_000, 5, "auto", (1025, 6_871_947_647)),
    ],
)
def test_the_ranges_of_decode_end_where_a_rule_goes_another_way(length, num_seqs, policy, where):
    assert decode(length, num_seqs, policy).ranges["max_seq_len"] == where


def lengths_near(ends, draw):
    """Lengths of a range: its ends, powers of two, and any."""
    low, high = max(ends[0], 0), min(ends[1], 200_000)
    some = [low, low + 1, high - 1, high, *(draw.randint(low, high) for _ in range(3))]
    return [n for n in (*some, 513, 65_537) if low <= n <= high]


@pytest.mark.parametrize("arch", ["sim:sm_90", "sim:gfx942", "cpu_generic"])
@pytest.mark.parametrize("policy", ["vllm", "split", "single_pass", "balanced", "even", "auto"])
def test_figures_that_move_are_those_of_a_plan_for_that_very_length(arch, policy):
    draw = random.Random(3)
    for num_seqs, heads in ((1, (8, 2)), (1, (128, 1)), (7, (32, 8)), (300, (40, 5))):
        length = 1
        while length < 200_000:  # from one range to the next
            here = decode(length, num_seqs, policy, heads, arch)
            for other in lengths_near(here.ranges["max_seq_len"], draw):
                there = decode(other, num_seqs, policy, heads, arch)
                assert there.values == here.at(max_seq_len=other), (num_seqs, heads, length, other)
            length = here.ranges["max_seq_len"][1] + 1


@pytest.mark.parametrize("policy", ["vllm", "single_pass", "balanced", "even", "auto"])
def test_figures_that_move_are_those_of_a_plan_for_that_very_batch(policy):
    draw, moved = random.Random(4), 0
    for length, heads in ((300, (8, 2)), (700, (32, 8)), (9000, (40, 5))):
        num_seqs = 2
        while num_seqs < 700:
            here = decode(length, num_seqs, policy, heads, extents=("num_seqs",))
            low, high = here.ranges["num_seqs"]
            for other in {low, min(high, 700), draw.randint(low, min(high, 700))}:
                there = decode(length, other, policy, heads)
                assert {**there.values, "num_seqs": other} == here.at(num_seqs=other, max_seq_len=length)
                moved += there.values != here.values
            num_seqs = high + 1 if low < high else num_seqs + 97
    assert moved or policy == "even"


def test_extend_has_one_range_of_lengths_and_a_grid_that_moves():
    sizes = {"num_seqs": 3, "total_q": 50, "num_indices": 40, "num_heads": 8, "num_kv_heads": 2}
    kinds = {**DECODE, "num_blocks": 9, "arch": "sim:gfx942"}
    extents = ("total_q", "num_indices")
    here = figures("extend_attention", {"max_extend_len": 30, "max_seq_len": 70}, extents, **sizes, **kinds)
    assert {here.ranges[name] for name in extents} == {(2, INT_MAX)}
    assert here.ranges["max_seq_len"] == (0, INT_MAX)
    assert here.ranges["max_extend_len"][0] == 0
    for extend, length in ((1, 1), (128, 128), (33, 5000), (2048, 100_000)):
        scalars = {"max_extend_len": extend, "max_seq_len": length}
        sizes |= {"total_q": 2 * extend + 1, "num_indices": length // 16 + 2}
        there = figures("extend_attention", scalars, **sizes, **kinds)
        assert there.values == here.at(**scalars, **sizes)
    assert there.values["grid 0y"] > here.values["grid 0y"]


def test_lengths_may_come_in_any_order(counted):
    lengths = torch.randint(101, 4096, (200,), generator=torch.Generator().manual_seed(2)).tolist()
    for limit in lengths:
        seen = counted.words(limit=limit)
        assert (seen["limit"], seen["num_parts"]) == (limit, -(-limit // 512))
        assert (seen["sums_stride_row"], seen["parts_stride_row"]) == (
            seen["num_parts"],
            8 * seen["num_parts"],
        )
        assert seen["sums"] - seen["parts"] == 3 * 8 * 4 * seen["num_parts"]
    assert counted.plans == 1


def test_an_alternative_that_names_another_has_the_range_of_both():
    """What an alternative leaves aside narrows nothing."""
    limit, rows = ["name", "limit"], ["name", "num_rows"]
    policies = {
        "long": ["if", ["<=", limit, ["int", 100]], ["int", 0], ["int", 512]],
        "short": ["if", ["<=", limit, ["int", 60]], ["int", 0], ["int", 512]],
        "main": [
            "if", [">", rows, ["int", 2]], ["name", "partition_size.long"], ["name", "partition_size.short"]
        ],
    }  # fmt: skip
    rule = replace(POLICY.select[1], policies=policies, default="main", want=policies["main"])
    policy = replace(POLICY, select=(POLICY.select[0], rule))
    for num_rows, most in ((3, 100), (2, 60)):
        names = {
            **BASE,
            "num_rows": num_rows,
            "num_heads": 8,
            "num_kv_heads": 2,
            "num_blocks": 5,
            "limit": 50,
        }
        fixed = {name: value for name, value in names.items() if name not in ("reuse", "partition_size")}
        call = Bound({**fixed, "num_words": 38}, {}, {}, {"limit": 50}, frozenset(), "cpu")
        tracker = follow_decisions(policy, call, select(policy, call, (), jit=True), {})
        assert tracker.intervals["limit"] == (0, most)
