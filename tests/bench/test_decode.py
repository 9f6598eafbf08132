"""The benchmarks on shapes of a few kilobytes: what they report, not how fast it is."""

import io
import json
import re

import pytest
import torch

from kgen.bench import contenders, decode, overhead, params, report
from kgen.bench.pool import Shape
from kgen.diagnostics import KgenError

TINY = {
    "batch": 2,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 64,
    "context": 70,
    "block_size": [16],
    "dtype": ["f32", "bf16"],
    "layout": "bhsd",
    "threads": 2,
    "rounds": 3,
}
FIELDS = {
    "op",
    "variant",
    "shape",
    "seconds",
    "gbps",
    "tokens_per_second",
    "ceiling_gbps",
    "of_ceiling",
    "stream_gbps",
    "of_stream",
    "peers",
    "best_peer",
    "rotation",
    "spread",
}


@pytest.fixture(autouse=True)
def small_pool(monkeypatch):
    monkeypatch.setattr("kgen.bench.pool.last_level_cache", lambda device: 1 << 16)


def test_decode_reports_its_fields():
    threads = torch.get_num_threads()
    found = report.run("decode", TINY)
    rows = json.loads(json.dumps(found.json()))
    assert [row["shape"]["dtype"] for row in rows] == ["f32", "bf16"]
    for row in rows:
        assert set(row) == FIELDS
        assert row["op"] == "paged_attention"
        assert row["variant"].startswith("paged_attention_")
        assert re.search(rf"_{row['shape']['dtype']}_d64_b16_bhsd_r\d+_p0$", row["variant"])
        nbytes = 2 * 2 * 70 * 2 * 64 * {"f32": 4, "bf16": 2}[row["shape"]["dtype"]]
        assert row["gbps"] == pytest.approx(nbytes / row["seconds"] / 1e9)
        assert row["tokens_per_second"] == pytest.approx(2 / row["seconds"])
        assert set(row["peers"]) == {"sdpa", "sdpa_folded", "matmuls"}
        low, high = row["spread"]["seconds"]
        assert 0 < low <= row["seconds"] <= high
    assert torch.get_num_threads() == threads


def test_decode_prints_a_line_a_shape():
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report.run("decode", {**TINY, "dtype": "f32"}).table())
    text = console.export_text()
    assert "_f32_d64_b16_bhsd_r" in text.replace("\n", "")
    assert "GB/s" in text and "(quartiles)" in text


def test_keys_and_values_of_8_bits_beside_those_of_the_queries():
    options = {**TINY, "dtype": "bf16", "kv_dtype": [None, "fp8_e4m3", "bf16"]}
    plain, eight, same = decode.run({**options, "rounds": 1})
    assert "_bf16_kvfp8_e4m3_d64_" in eight.variant
    assert eight.shape.kv_bytes * 2 == plain.shape.kv_bytes == same.shape.kv_bytes
    assert plain.variant == same.variant
    assert set(eight.peers) == {"sdpa", "sdpa_folded", "matmuls"}
    assert eight.json()["shape"]["kv_dtype"] == "fp8_e4m3"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kv_dtype": "fp8_e4m4"}, "--kv-dtype fp8_e4m4 is not known"),
        ({"dtype": "fp8_e4m3"}, "--dtype fp8_e4m3 is not known"),
        ({"dtype": "float"}, "--dtype float is not known"),
    ],
)
def test_dtypes_no_call_holds_are_refused(change, told):
    with pytest.raises(KgenError, match=told) as caught:
        decode.run({**TINY, **change})
    assert caught.value.diagnostics[0].code == "K580"


def test_the_faster_page_loop_of_each_round_is_the_ceiling(monkeypatch):
    loops = {"pages": [1.0, 4.0, 4.0], "pages_ahead": [2.0, 2.0, 3.0]}
    times = {**loops, "kernel": [4.0] * 3, "stream": [1.0] * 3}
    called = []
    monkeypatch.setattr(decode, "timed", lambda *args: called.extend(args[2]) or dict(times))
    (row,) = decode.run({**TINY, "dtype": "f32", "peers": ["none"]})
    assert called == list(times)
    assert (row.of_ceiling.median, row.ceiling_seconds) == (0.5, 2.0)


def test_a_forced_partition_is_what_runs():
    (row,) = decode.run({**TINY, "dtype": "f32", "partition_size": 256})
    assert row.variant.endswith("_p256")


def test_every_table_is_compared_with_the_oracle(monkeypatch):
    compared = []
    right = decode.Decode.compare

    def compare(self, number, name):
        compared.append(number)
        right(self, number, name)

    monkeypatch.setattr(decode.Decode, "compare", compare)
    decode.run({**TINY, "dtype": "f32", "rounds": 1})
    assert compared == [0, 1, 2, 3]


def test_a_peer_that_is_wrong_or_fails_takes_no_part(monkeypatch):
    def broken(*_):
        raise RuntimeError("not here")

    right = contenders.dense_peers(False)["sdpa"]
    peers = {"right": right, "wrong": lambda work: lambda number: work.pool.q * 0 + 0.1, "broken": broken}
    monkeypatch.setattr(contenders, "dense_peers", lambda on_gpu: peers)
    said = []
    (row,) = decode.run({**TINY, "dtype": "f32"}, said.append)
    assert set(row.peers) == {"right"}
    assert said[1].startswith("wrong takes no part: its result is off by")
    assert said[2] == "broken takes no part: RuntimeError: not here"


def test_a_wrong_result_is_not_timed(monkeypatch):
    from kgen import ops

    right = ops.paged_attention

    def wrong(*args, **kwargs):
        right(*args, **kwargs)
        kwargs["out"][1, 2, 3] += 0.01

    monkeypatch.setattr(ops, "paged_attention", wrong)
    with pytest.raises(KgenError, match=r"row 1 of paged_attention_.* differs from the oracle"):
        decode.run({**TINY, "dtype": "f32"})


def test_ragged_rows_are_checked_and_counted(monkeypatch):
    rows = []
    right = decode.Decode.compare

    def compare(self, number, name):
        rows.append(self.pool.shape.lengths)
        right(self, number, name)

    monkeypatch.setattr(decode.Decode, "compare", compare)
    (row,) = decode.run({**TINY, "dtype": "f32", "ragged": True, "seed": 3, "peers": ["matmuls"]})
    assert len(set(rows[0])) > 1 and row.shape.seed == 3
    assert row.json()["gbps"] == pytest.approx(2 * sum(rows[0]) * 2 * 64 * 4 / row.seconds.median / 1e9)
    assert row.best_peer == "matmuls" and row.speedup.median > 0


def test_peers_are_those_asked_for():
    assert "flex" not in contenders.chosen_peers(None, "cpu")
    assert set(contenders.chosen_peers(["all"], "cpu")) == {"sdpa", "sdpa_folded", "matmuls", "flex"}
    on_gpu = {"flashinfer", "flashinfer_tc", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn"}
    assert on_gpu <= set(contenders.chosen_peers(None, "cuda:0"))
    assert list(contenders.chosen_peers(["sdpa_cudnn"], "cuda:0")) == ["sdpa_cudnn"]
    assert contenders.chosen_peers(["none"], "cpu") == {}
    with pytest.raises(KgenError, match=r"no peer on cpu is named 'flashinfer'"):
        contenders.chosen_peers(["sdpa", "flashinfer"], "cpu")


def test_without_peers_there_is_nothing_to_compare_with():
    (row,) = decode.run({**TINY, "dtype": "f32", "peers": ["none"]})
    found = row.json()
    assert (found["peers"], found["best_peer"], found["spread"]["best_peer_ratio"]) == ({}, "", None)
    assert found["rotation"]["bytes"] >= 6 * found["rotation"]["cache_bytes"] == 6 << 16


def test_overhead_times_every_operator():
    rows = report.run("overhead", {"calls": 3, "rounds": 2}).json()
    assert [row["op"] for row in rows] == [
        "paged_attention of no rows",
        "paged_attention, single_pass",
        "paged_attention, single_pass, growing",
        "paged_attention, split",
        "paged_attention, split, growing",
        "extend_attention",
        "extend_attention, growing",
        "extend_attention, other batches",
        "merge_states",
        "reshape_and_cache",
        "copy_blocks",
        "swap_blocks",
        "torch.add",
    ]
    assert all(row["seconds"] > 0 for row in rows)
    assert {row["op"]: row["plans"] for row in rows if row["plans"]} == {}
    assert overhead.DEFAULTS["rounds"] >= 20


def test_params_tables():
    small = {
        "batch": 1,
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 64,
        "context": 4096,
        "rounds": 2,
        "dtype": "f32",
    }
    found = report.run("params", small).json()
    blocks = {row["block_size"]: row for row in found["block_size"]}
    assert {size: row["entries"] for size, row in blocks.items()} == {16: 256, 32: 128, 64: 64, 128: 32}
    for size, row in blocks.items():
        assert row["waste_tokens"] == pytest.approx((size - 1) / 2, rel=0.05)
        assert row["waste_bytes"] == pytest.approx(row["waste_tokens"] * 2 * 64 * 4)
    parts = {row["partition_size"]: row for row in found["partition_size"]}
    assert {size: row["partitions"] for size, row in parts.items()} == {256: 16, 512: 8}
    assert {size: row["workspace_bytes"] for size, row in parts.items()} == {
        256: 4 * 2 * 16 * 66,
        512: 4 * 2 * 8 * 66,
    }


def test_workspace_bytes_are_those_of_three_tensors():
    shape = Shape(3, 4, 2, 128, 1000, 16, "bshd", "bf16", 1)
    assert params.workspace_bytes(shape, 256) == 3 * 4 * 4 * (4 + 4 + 4 * 128)


@pytest.mark.parametrize(("kind", "args"), [("decoed", {}), ("decode", {"heds": 3})])
def test_unknown_names_are_refused_with_the_nearest(kind, args):
    with pytest.raises(KgenError, match=r"did you mean '(decode|heads)'"):
        report.run(kind, args)
