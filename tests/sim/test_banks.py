"""Cycles lost to banks of shared memory: by hand-made patterns, and by the kernels of decode and extend."""

import functools
import math

import pytest
import torch

from kgen import ops
from kgen.dispatch.operators import OPERATORS
from tests.sim import simulated
from tests.sim.counters import counter

SOURCE = simulated.SOURCE.with_name("banks.cpp")


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    """The kernels of banks.cpp by more flags."""
    folder = tmp_path_factory.mktemp("banks")

    @functools.cache
    def compile_once(wave, *flags):
        output = folder / f"banks{wave}{''.join(flags)}.so"
        return simulated.compile_kernels(output, wave, *flags, source=SOURCE)

    return compile_once


@pytest.fixture(params=[64, 32], ids=["wave64", "wave32"])
def kernels(request, banks):
    return banks(request.param)


def lost(kernels, kernel: str, apart: int = 0) -> int:
    data = torch.zeros(512, dtype=torch.int32)
    data[0] = apart
    assert kernels.call(kernel, data).code == 0 and data[1] == 0
    return kernels.counter("lds_conflicts")


@pytest.mark.parametrize(("apart", "ways"), [(0, 1), (1, 1), (2, 2), (3, 1), (8, 8), (32, 32), (33, 1)])
def test_words_in_one_bank_are_read_one_after_another(kernels, apart, ways):
    phases = 2 * 128 // 32  # of two blocks
    assert lost(kernels, "reads_every_nth_word", apart) == phases * (ways - 1)


@pytest.mark.parametrize("kernel", ["reads_rows_of_vectors", "stores_rows_of_vectors"])
@pytest.mark.parametrize(("apart", "ways"), [(16, 8), (17, 1), (18, 2), (20, 4)])
def test_of_sixteen_bytes_eight_lanes_in_a_row_take_a_phase(kernels, kernel, apart, ways):
    assert lost(kernels, kernel, apart) == 2 * 128 // 8 * (ways - 1)


@pytest.mark.parametrize(("apart", "reads", "stores"), [(17, 1, 0), (18, 0, 1), (16, 3, 7)])
def test_crossed_reads_take_lanes_four_by_four(banks, apart, reads, stores):
    crossed = banks(64, "-DKGEN_CROSSED_READS")
    assert lost(crossed, "reads_rows_of_vectors", apart) == 32 * reads
    assert lost(crossed, "stores_rows_of_vectors", apart) == 32 * stores


def test_lanes_that_do_not_take_part_take_no_turn(kernels):
    lanes, times, phases = 8, 3, 2 * 128 // 16
    assert lost(kernels, "reads_pairs_by_some_lanes") == times * phases * (lanes - 1)


def test_the_count_is_that_of_the_last_call(kernels):
    assert lost(kernels, "reads_every_nth_word", 32) > 0
    assert lost(kernels, "reads_every_nth_word", 1) == 0


def decode_loses(arch: str, head_dim: int, reuse: int, partition_size: int) -> int:
    """Cycles that a call of decode loses."""
    generator = torch.Generator().manual_seed(head_dim)
    lengths, block, kv_heads = [512, 1, 1024], 64, 2
    pages = [-(-length // block) for length in lengths]
    k, v = torch.randn(2, sum(pages), block, kv_heads, head_dim, generator=generator).half()
    table = torch.zeros(len(lengths), max(pages), dtype=torch.int32)
    for row, own in enumerate(torch.arange(sum(pages)).int().split(pages)):
        table[row, : len(own)] = own
    q = torch.randn(len(lengths), reuse * kv_heads, head_dim, generator=generator).half()
    out = ops.paged_attention(
        *(q, k, v, table, torch.tensor(lengths, dtype=torch.int32)),
        max_seq_len=max(lengths),
        partition_size=partition_size,
        reuse_kv_times=reuse,
        arch=f"sim:{arch}",
    )
    assert out.isfinite().all()
    part = "even" if partition_size < 0 else f"p{partition_size}"
    name = f"paged_attention_sim_{arch}_f16_d{head_dim}_b{block}_bshd_r{reuse}_{part}"
    return counter("paged_attention", name, "lds_conflicts")


def extend_loses(arch: str, head_dim: int) -> int:
    """Cycles that a call of extend loses."""
    heads, kv_heads, new, length, page = 2, 1, 40, 200, 16
    pages = -(-length // page)
    generator = torch.Generator().manual_seed(head_dim)
    q = torch.randn(new, heads, head_dim, generator=generator).bfloat16()
    caches = torch.randn(2, pages, page, kv_heads, head_dim, generator=generator).bfloat16()
    out, lse = torch.empty_like(q), torch.empty(new, heads)
    rows = ([0, new], [0, pages], list(range(pages)), [length])
    ints = (torch.tensor(x, dtype=torch.int32) for x in rows)
    ops.dispatcher().caller(OPERATORS["extend_attention"])(
        *(out, lse, q, *caches, None, None, *ints, None, None, 1 / math.sqrt(head_dim)),
        *(new, length, page, "bshd", None, f"sim:{arch}"),
    )
    assert out.isfinite().all()
    name = f"extend_attention_sim_{arch}_bf16_d{head_dim}_b{page}_bshd"
    return counter("extend_attention", name, "lds_conflicts")


@pytest.mark.parametrize("arch", ["gfx942", "gfx90a", "gfx936", "gfx938"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize(("reuse", "partition_size"), [(4, 0), (16, 512), (8, -1)])
def test_waves_of_decode_meet_without_conflicts(arch, head_dim, reuse, partition_size):
    assert decode_loses(arch, head_dim, reuse, partition_size) == 0


@pytest.mark.parametrize("arch", ["gfx942", "gfx90a", "gfx936", "gfx938"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_tiles_of_extend_come_and_are_read_without_conflicts(arch, head_dim):
    assert extend_loses(arch, head_dim) == 0


def test_what_remains_where_rows_are_no_multiple_of_128_bytes():
    """Lanes that store or read together reach over the end of a row, where bank follows bank no longer."""
    rows, row_reads = 3 * 2 * 4, 4 * 80 // 4  # 16 bytes of each of 4 waves
    assert decode_loses("gfx942", 80, reuse=4, partition_size=0) == 144 <= rows * row_reads // 8
    assert extend_loses("gfx942", 96) == 256
    assert extend_loses("gfx936", 96) == 0
