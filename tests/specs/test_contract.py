"""What every operator promises beside its results: refusals, strides, and which variants exist."""

import itertools

import pytest
import torch

from kgen import ops
from kgen.diagnostics import KgenError
from kgen.testing import runner
from kgen.variants.matrix import make_variant
from kgen.variants.model import Rejected
from tests.specs.spec_samples import (
    BLOCK_SIZES,
    CATALOG,
    GROUPS,
    HEAD_DIMS,
    LARGE,
    LAYOUTS,
    SMALL,
    cases,
    sample,
    variant,
)


def attention_call(head_dim=64, block_size=16, dtype=torch.float32, **changes):
    """A small correct call of paged_attention, with NaN in `out`."""
    torch.manual_seed(0)
    arguments = {
        "q": torch.randn(2, 4, head_dim).to(dtype),
        "k_cache": torch.randn(4, block_size, 2, head_dim).to(dtype),
        "v_cache": torch.randn(4, block_size, 2, head_dim).to(dtype),
        "block_table": torch.tensor([[1, 3], [2, -1]], dtype=torch.int32),
        "seq_lens": torch.tensor([block_size + 1, 2], dtype=torch.int32),
        "max_seq_len": block_size + 1,
        "out": torch.full((2, 4, head_dim), torch.nan).to(dtype),
    }
    return {**arguments, **changes}


def refused(call) -> str:
    """The message of a call that must raise and leave `out` alone."""
    with pytest.raises(KgenError) as error:
        ops.paged_attention(**call)
    assert call["out"].isnan().all()
    return str(error.value)


@pytest.mark.parametrize("head_dim", [8, 24, 36, 100, 264])
def test_a_head_dim_without_kernels_is_refused(head_dim):
    message = refused(attention_call(head_dim=head_dim))
    assert "head_dim" in message
    assert "specs/ops/paged_attention.yaml" in message


@pytest.mark.parametrize("block_size", [2, 8, 24])
def test_a_block_size_without_kernels_is_refused(block_size):
    assert "block_size" in refused(attention_call(block_size=block_size))


@pytest.mark.parametrize("partition_size", [-1, 24, 17])
def test_a_partition_that_cannot_be_is_refused(partition_size):
    assert "partition_size" in refused(attention_call(partition_size=partition_size))


def test_a_dtype_without_kernels_is_refused():
    assert "f64" in refused(attention_call(dtype=torch.float64)) or "float64" in refused(
        attention_call(dtype=torch.float64)
    )


def test_a_layout_of_unknown_order_is_refused():
    assert "dcu_layout2" in refused(attention_call(layout="dcu_layout2"))


def test_without_building_on_demand_the_missing_spec_lines_are_named(monkeypatch, empty_cache):
    monkeypatch.setenv("KGEN_JIT", "0")
    ops.reset()
    try:
        message = refused(attention_call(head_dim=48))
    finally:
        ops.reset()
    assert "head_dim" in message and "48" in message
    assert "paged_attention" in message


def test_length_past_the_table_is_refused():
    refused(attention_call(seq_lens=torch.tensor([33, 2], dtype=torch.int32), max_seq_len=33))


def test_length_past_max_seq_len_is_refused():
    refused(attention_call(max_seq_len=16))


@pytest.mark.parametrize("block", [-1, 4])
def test_the_message_names_the_row_and_the_block(block):
    table = torch.tensor([[1, 3], [block, -1]], dtype=torch.int32)
    message = refused(attention_call(block_table=table))
    assert "row 1" in message
    assert f"block id {block}" in message


def test_a_dim_that_is_not_contiguous_is_refused():
    q = torch.randn(2, 64, 4).transpose(1, 2)
    assert "q" in refused(attention_call(q=q))


def test_strides_of_fused_projections_are_honoured():
    call = attention_call()
    ops.paged_attention(**call)
    fused = torch.full((2, 3 * 4 * 64), torch.nan)
    fused[:, 256:512] = call["q"].reshape(2, 256)
    pages = torch.full((4, 2, 16, 2, 64), torch.nan)
    pages[:, 0], pages[:, 1] = call["k_cache"], call["v_cache"]
    again = {
        **call,
        "q": fused[:, 256:512].view(2, 4, 64),
        "k_cache": pages[:, 0],
        "v_cache": pages[:, 1],
        "out": torch.empty(2, 4, 64),
    }
    ops.paged_attention(**again)
    assert torch.equal(call["out"], again["out"])


def test_zero_rows_are_nothing_to_do():
    call = attention_call(
        q=torch.empty(0, 4, 64),
        block_table=torch.empty(0, 2, dtype=torch.int32),
        seq_lens=torch.empty(0, dtype=torch.int32),
        out=torch.empty(0, 4, 64),
    )
    assert ops.paged_attention(**call).shape == (0, 4, 64)


def test_every_rejected_combination_raises_its_rule():
    """Of combinations off the matrix, each that the spec rejects is refused in its words."""
    op = CATALOG.ops["paged_attention"]
    seen = 0
    for head_dim, block_size in itertools.product((16, 48, 66, 512), (16, 64)):
        params = {
            "arch": "cpu_generic",
            "dtype": "f32",
            "head_dim": head_dim,
            "block_size": block_size,
            "layout": "bshd",
            "reuse_kv_times": 2,
            "partition_size": 0,
        }
        made = make_variant(op, params, CATALOG)
        if isinstance(made, Rejected):
            seen += 1
            message = refused(attention_call(head_dim=head_dim, block_size=block_size, arch="cpu_generic"))
            assert made.because in message
    assert seen == 6


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_samples_cover_what_is_promised(large):
    axes = (LARGE if large else SMALL)["paged_attention"]
    held = [v.params for v in sample(large) if v.op.name == "paged_attention"]
    for one, two in itertools.combinations(axes, 2):
        pairs = {(params[one], params[two]) for params in held}
        assert len(pairs) == len(axes[one]) * len(axes[two])
    assert {40, 72, 80, 96, 112} < {params["head_dim"] for params in held} == set(HEAD_DIMS)
    assert {params["block_size"] for params in held} == set(BLOCK_SIZES)
    assert {params["layout"] for params in held} == set(LAYOUTS)


def test_every_group_meets_every_head_dim():
    found = {
        (case.variant.params["head_dim"], case.values["group"])
        for case in cases(sample(large=False))
        if case.variant.op.name == "paged_attention"
    }
    assert found >= set(itertools.product(HEAD_DIMS, GROUPS))


def test_a_case_is_the_same_every_time():
    made = variant(
        "paged_attention",
        dtype="f32",
        head_dim=64,
        block_size=16,
        layout="bshd",
        reuse_kv_times=4,
        partition_size=0,
    )
    first, second = runner.cases(made), runner.cases(made)
    assert [case.name for case in first] == [case.name for case in second]
    one, two = (runner.materialise(case[0]) for case in (first, second))
    assert torch.equal(one["q"], two["q"])
    assert torch.equal(one["block_table"], two["block_table"])
