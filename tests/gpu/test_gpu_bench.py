"""The benchmarks on a GPU, on shapes of a few kilobytes: what they report, not how fast it is."""

import functools
import operator

import pytest
import torch

from kgen.bench import decode, overhead
from kgen.bench.ceiling_gpu import gpu_ceiling
from kgen.bench.pool import Shape, draw_pool
from kgen.dispatch import gpu
from kgen.spec.benches import BenchCell, Heads, Workload
from kgen.spec.load import load_catalog
from kgen.tune import decode as tuner
from kgen.variants.matrix import make_variant

TINY = {
    "batch": 3,
    "heads": 8,
    "kv_heads": 2,
    "head_dim": 128,
    "context": 1100,
    "block_size": 16,
    "dtype": "bf16",
    "layout": "bhsd",
    "device": "cuda",
    "rounds": 2,
}


def xor(tensor):
    words = tensor.contiguous().view(torch.int32).flatten().tolist()
    return functools.reduce(operator.xor, words, 0)


@pytest.mark.parametrize(("partition_size", "tag"), [(0, "_p0"), (512, "_p512")])
def test_decode_reports_what_ran_and_the_peers(partition_size, tag):
    said = []
    (row,) = decode.run({**TINY, "partition_size": partition_size}, said.append)
    assert row.variant.startswith("paged_attention_") and row.variant.endswith(tag)
    assert row.shape.device.startswith("cuda:")
    assert {"sdpa", "sdpa_folded", "matmuls"} <= set(row.peers), said
    found = row.json()
    assert found["gbps"] > 0 and found["ceiling_gbps"] > 0 and found["stream_gbps"] > 0


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_ragged_rows_against_peers_that_know_their_lengths(layout):
    said = []
    (row,) = decode.run({**TINY, "ragged": True, "seed": 1, "layout": layout}, said.append)
    assert {"sdpa", "sdpa_folded", "matmuls"} <= set(row.peers), said
    assert row.rotation[1] >= row.rotation[2]
    assert row.json()["of_stream"] > 0 and row.best_peer in row.peers


def test_kernels_are_timed_for_a_table():
    catalog, arch = load_catalog(), gpu.arch_of("cuda:0")
    cell = BenchCell(Workload("w", 2, 600), Heads("h", 8, 2, 128), "bf16", "bshd", 16)
    fixed = {"arch": arch, "dtype": "bf16", "head_dim": 128, "block_size": 16, "layout": "bshd"}
    variants = [
        make_variant(
            catalog.op("paged_attention"), {**fixed, "reuse_kv_times": 4, "partition_size": part}, catalog
        )
        for part in (0, 512)
    ]
    times = tuner.measure(cell, variants, "cuda:0", {"rounds": 3, "threads": None})
    assert list(times) == [variant.name for variant in variants]
    assert all(len(one) == 3 and min(one) > 0 for one in times.values())


def test_overhead_times_every_operator():
    rows = overhead.run({"calls": 3, "rounds": 2, "device": "cuda"})
    assert len(rows) == 15
    assert all(row.seconds.median > 0 and row.plans == 0 for row in rows)


def test_the_loops_read_what_they_say():
    shape = Shape(2, 4, 2, 128, 300, 16, "bshd", "bf16", 0, "cuda:0")
    pool = draw_pool(shape, load_catalog().layouts["bshd"], cache_bytes=1 << 20)
    loops = gpu_ceiling("cuda:0")
    table = pool.tables[1].flatten().long()
    loops.pages(pool, 1)
    assert loops.total() == xor(pool.k_cache[table]) ^ xor(pool.v_cache[table])
    span = pool.span(3)
    loops.stream(span, span.numel() * 2)
    assert loops.total() == xor(span)
