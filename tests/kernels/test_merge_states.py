"""The exact merge of partial results, below dispatch."""

import math

import pytest
import torch
from torch import Tensor

from kgen import reference
from tests.kernels.harness import DTYPES, Kernel, kernel, tensor

TOLERANCE = {"f32": 3e-6, "f16": 2.1e-3, "bf16": 1.6e-2}


def merge(
    one: Kernel, states: Tensor, states_lse: Tensor, threads: int = 1, with_lse: bool = True
) -> tuple[Tensor, Tensor]:
    """Run the kernel on states [rows, states, heads, dim] and lse [rows, states, heads]."""
    rows, count, heads, dim = states.shape
    out = torch.full((rows, heads, dim), math.nan, dtype=states.dtype)
    lse = torch.full((rows, heads), math.nan)
    words = {
        **tensor("out", out, "row", "head", "dim"),
        **tensor("lse", lse, "row", "head"),
        **tensor("states", states, "row", "state", "head", "dim"),
        **tensor("states_lse", states_lse, "row", "state", "head"),
        "num_rows": rows,
        "num_states": count,
        "num_heads": heads,
    }
    assert one.call(words if with_lse else {**words, "lse": 0}, threads)[0] == 0
    return out, lse


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("count", [1, 2, 37])
def test_merges_as_one_softmax(dtype: str, count: int) -> None:
    one = kernel("merge_states", dtype=dtype, head_dim=64)
    states = torch.randn(70, count, 3, 64).to(DTYPES[dtype])
    lse = torch.randn(70, count, 3) * 5
    lse[3, 0] = lse[4, :, 1] = -math.inf
    states[4, :, 1] = math.nan
    out, merged = merge(one, states, lse, threads=2)
    want, want_lse = reference.merge_states(states.nan_to_num(0.0), lse)
    torch.testing.assert_close(out.double(), want.double(), rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(merged.double(), want_lse.double(), rtol=0, atol=2e-6)


def test_sides_without_tokens() -> None:
    one = kernel("merge_states", dtype="f32", head_dim=64)
    states = torch.randn(3, 2, 1, 64)
    lse = torch.tensor([[-math.inf, 2.5], [0.25, -math.inf], [-math.inf, -math.inf]]).unsqueeze(-1)
    states[0, 0], states[1, 1], states[2] = math.nan, math.inf, math.nan
    out, merged = merge(one, states, lse)
    assert torch.equal(out[0], states[0, 1])
    assert torch.equal(out[1], states[1, 0])
    assert torch.equal(out[2], torch.zeros(1, 64))
    assert merged.flatten().tolist() == [2.5, 0.25, -math.inf]


def test_far_apart_and_large_lse() -> None:
    """No overflow: the answer is the larger side."""
    one = kernel("merge_states", dtype="f32", head_dim=64)
    states = torch.randn(2, 2, 1, 64)
    lse = torch.tensor([[1000.0, -1000.0], [-500.0, 90.0]]).unsqueeze(-1)
    out, merged = merge(one, states, lse, with_lse=True)
    assert torch.equal(out[0], states[0, 0]) and torch.equal(out[1], states[1, 1])
    assert merged.flatten().tolist() == [1000.0, 90.0]


def test_lse_is_optional_and_strides_count() -> None:
    one = kernel("merge_states", dtype="f32", head_dim=64)
    wide = torch.randn(5, 2, 3, 200)
    lse = torch.randn(5, 3, 2).transpose(1, 2).contiguous()
    out, untouched = merge(one, wide[..., 7:71], lse, with_lse=False)
    want, _ = reference.merge_states(wide[..., 7:71], lse)
    torch.testing.assert_close(out.double(), want.double(), rtol=0, atol=1e-6)
    assert untouched.isnan().all()
