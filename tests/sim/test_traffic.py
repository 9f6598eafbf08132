"""A group's KV is read once, however many heads it has: counted by the simulator."""

import math

import pytest
import torch

from kgen import ops
from tests.sim.counters import counter

LENGTHS, BLOCK, DIM, KV_HEADS = [512, 256, 1024], 16, 64, 2
ARCH = "sim:gfx942"


@pytest.mark.parametrize(
    ("group", "reuse"), [(1, 1), (3, 3), (8, 8), (12, 8), (16, 16), (24, 24), (48, 48), (64, 64)]
)
@pytest.mark.parametrize("partition_size", [0, 256])
def test_kv_is_read_once_for_every_pass_over_a_group(group, reuse, partition_size):
    generator = torch.Generator().manual_seed(group)
    pages = [length // BLOCK for length in LENGTHS]
    k, v = torch.randn(2, sum(pages), BLOCK, KV_HEADS, DIM, generator=generator).half()
    table = torch.zeros(len(LENGTHS), max(pages), dtype=torch.int32)
    for row, own in enumerate(torch.randperm(sum(pages), generator=generator).int().split(pages)):
        table[row, : len(own)] = own
    q = torch.randn(len(LENGTHS), group * KV_HEADS, DIM, generator=generator).half()
    out = ops.paged_attention(
        q,
        k,
        v,
        table,
        torch.tensor(LENGTHS, dtype=torch.int32),
        max_seq_len=max(LENGTHS),
        partition_size=partition_size,
        reuse_kv_times=reuse,
        arch=ARCH,
    )
    assert out.isfinite().all()
    passes = math.ceil(group / reuse)
    parts = [math.ceil(length / partition_size) if partition_size else 1 for length in LENGTHS]
    waves = 4
    kv = passes * 2 * sum(LENGTHS) * KV_HEADS * DIM * 2
    queries = sum(parts) * KV_HEADS * group * DIM * 2 * waves  # every wave has its own copy
    tables = passes * sum(pages) * KV_HEADS * 4
    partial = sum(p for p in parts if p > 1) * group * KV_HEADS * (DIM + 2) * 4
    name = f"paged_attention_sim_gfx942_f16_d64_b16_bshd_r{reuse}_p{partition_size}"
    read = counter("paged_attention", name, "bytes_read")
    assert kv + queries + tables <= read <= 1.02 * (kv + queries + tables) + 1.1 * partial
