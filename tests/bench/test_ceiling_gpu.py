"""The reading grids of a GPU, on the simulator: what they read, and that they read it once."""

import ctypes
import functools
import operator

import pytest
import torch

from kgen.bench import ceiling_gpu
from kgen.bench.ceiling_gpu import THREADS, page_words, stream_words, xored
from kgen.bench.pool import Shape, draw_pool
from kgen.spec.load import load_catalog

CATALOG = load_catalog()
BLOCKS = 3
SHAPE = Shape(
    batch=2,
    heads=2,
    kv_heads=2,
    head_dim=80,
    context=100,
    block_size=16,
    layout="bhsd",
    dtype="bf16",
    threads=0,
)


class Loops:
    """The loops of a target, run by the simulator."""

    def __init__(self, name):
        target = CATALOG.targets[name]
        self.library = ctypes.CDLL(str(ceiling_gpu.build(target, simulated=True)))
        self.library.kgen_sim_counter.restype = ctypes.c_int64
        self.sums = torch.zeros(2 * BLOCKS * THREADS // target.wave, dtype=torch.int32)

    def run(self, symbol, words):
        """Run one; what the sums say, and the bytes read."""
        error = (ctypes.c_int64 * 4)()
        block = (ctypes.c_int64 * len(words))(*words)
        block[2] = ctypes.addressof(error)
        self.sums.zero_()
        assert self.library[symbol](block) == 0, list(error)
        return xored(self.sums), self.library.kgen_sim_counter(b"bytes_read")


@pytest.fixture(scope="module", params=["sm_90", "gfx942"])
def loops(request):
    return Loops(request.param)


@pytest.fixture(scope="module")
def pool():
    return draw_pool(SHAPE, CATALOG.layouts["bhsd"], cache_bytes=2 * SHAPE.kv_bytes)


def xor(tensor):
    words = tensor.contiguous().view(torch.int32).flatten().tolist()
    return functools.reduce(operator.xor, words, 0)


@pytest.mark.parametrize("piece", [1024, 4096, 16384])
def test_the_pages_of_a_table_and_no_others_are_read_once(loops, pool, piece):
    got, nbytes = loops.run("kgen_read_pages_sim", page_words(pool, 3, loops.sums, BLOCKS, piece))
    table = pool.tables[3].flatten().long()
    assert got == xor(pool.k_cache[table]) ^ xor(pool.v_cache[table])
    assert (
        0 <= nbytes - 2 * len(table) * pool.page_bytes <= 2 * len(table) * 4 * (pool.page_bytes // piece + 1)
    )


@pytest.mark.parametrize("words", [4, 1000, 40_000])
def test_a_span_is_read_whole_and_once(loops, words):
    data = torch.randint(-(2**31), 2**31, (words + 8,), generator=torch.Generator().manual_seed(0)).int()
    got, nbytes = loops.run("kgen_read_stream_sim", stream_words(data, 4 * words, loops.sums, BLOCKS))
    assert got == xor(data[:words])
    assert nbytes == 4 * words


def test_the_image_for_nvidia_compiles():
    if not ceiling_gpu.build(CATALOG.targets["sm_90"]).read_bytes().startswith(b"\x7fELF"):
        pytest.fail("no image")
