"""`kgen bench extend` on a small shape: what it counts, and that a wrong result is not timed."""

from __future__ import annotations

import pytest
import torch

from kgen.bench import extend
from kgen.diagnostics import KgenError

SMALL = {
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 64,
    "prefix": 20,
    "extend": 9,
    "dtype": ("f32",),
    "threads": 1,
    "rounds": 1,
}


def test_operations_are_those_of_visible_pairs() -> None:
    shape = extend.ExtendShape(2, 4, 2, 64, 3, 4, 16, "bshd", "f32", 1, "cpu")
    pairs = sum(1 for i in range(4) for j in range(7) if j <= i + 3)
    assert shape.operations == 2 * 4 * pairs * 2 * 2 * 64


def test_a_row_says_what_ran_and_against_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extend.MATMUL_SIZE, "cpu", 64)
    (row,) = extend.run(SMALL)
    found = row.json()
    assert found["op"] == "extend_attention" and found["variant"].endswith("_f32_d64_b16_bshd")
    assert found["gflops"] == pytest.approx(row.shape.operations / row.seconds.median / 1e9)
    assert {"sdpa", "sdpa_lower_right"} <= found["peers"].keys()


def test_keys_of_8_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extend.MATMUL_SIZE, "cpu", 64)
    (row,) = extend.run({**SMALL, "dtype": ("bf16",), "kv_dtype": "fp8_e5m2"})
    assert row.variant.endswith("_bf16_kvfp8_e5m2_d64_b16_bshd")
    assert row.shape.dtypes == "bf16 kvfp8_e5m2"
    assert {"sdpa", "sdpa_lower_right"} <= row.peers.keys()


def test_a_wrong_result_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = extend.ops.extend_attention

    def wrong(*args: object, out: torch.Tensor, **options: object) -> None:
        right(*args, out=out, **options)
        out[-1, 0, 0] += 1.0

    monkeypatch.setattr(extend.ops, "extend_attention", wrong)
    with pytest.raises(KgenError, match="K581"):
        extend.run({**SMALL, "extend": 8})
