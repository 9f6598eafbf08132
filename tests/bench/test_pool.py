import dataclasses
import functools
import operator

import pytest
import torch

from kgen import reference
from kgen.bench.ceiling import ceiling
from kgen.bench.peers import PEERS
from kgen.bench.pool import Shape, draw_pool, last_level_cache
from kgen.spec.load import load_catalog

LAYOUTS = load_catalog().layouts
SHAPE = Shape(
    batch=2,
    heads=6,
    kv_heads=2,
    head_dim=32,
    context=37,
    block_size=16,
    layout="bhsd_vt",
    dtype="f32",
    threads=2,
)


@pytest.fixture(scope="module")
def pool():
    return draw_pool(SHAPE, LAYOUTS["bhsd_vt"], cache_bytes=2 * SHAPE.kv_bytes)


def test_shape_counts_pages_and_bytes():
    assert SHAPE.pages == 3
    assert SHAPE.kv_bytes == 2 * 2 * 37 * 2 * 32 * 4
    assert dataclasses.replace(SHAPE, dtype="bf16").kv_bytes == SHAPE.kv_bytes // 2


def test_tables_share_no_page_and_outgrow_the_cache(pool):
    ids = torch.cat([table.flatten() for table in pool.tables])
    assert sorted(ids.tolist()) == list(range(pool.k_cache.shape[0]))
    assert len(pool.tables) == 9
    others = (len(pool.tables) - 1) * SHAPE.kv_bytes
    assert others >= 4 * 2 * SHAPE.kv_bytes
    assert not torch.equal(ids, ids.sort().values)


def test_even_a_large_set_has_another_to_turn_to():
    assert len(draw_pool(SHAPE, LAYOUTS["bshd"], cache_bytes=1).tables) == 2


def test_contiguous_holds_what_the_table_says(pool):
    k, v = pool.contiguous(3)
    assert k.shape == v.shape == (2, 2, 37, 32)
    want, _ = reference.gather(pool.k_cache, pool.v_cache, pool.layout, pool.tables[3][1], 37)
    assert torch.equal(k[1], want.transpose(0, 1))


@pytest.mark.parametrize("name", PEERS)
def test_peers_compute_the_same_attention(pool, name):
    k, v = pool.contiguous(0)
    got = PEERS[name](pool.q, k, v, 0.3)
    want, _ = reference.paged_attention(
        pool.q, pool.k_cache, pool.v_cache, pool.tables[0], pool.seq_lens, 0.3, pool.layout
    )
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def xor(tensor: torch.Tensor) -> int:
    return functools.reduce(operator.xor, tensor.contiguous().view(torch.int64).flatten().tolist(), 0)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_page_loop_reads_these_pages_and_no_others(pool, threads):
    table = pool.tables[4].flatten().long()
    assert ceiling(threads).pages(pool, 4) == xor(pool.k_cache[table]) ^ xor(pool.v_cache[table])


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("words", [32, 4096, 5000 * 32])
def test_the_streaming_read_reads_everything(threads, words):
    data = torch.randint(-(2**62), 2**62, (words + 8,), generator=torch.Generator().manual_seed(0))
    assert ceiling(threads).stream(data, words * 8) == xor(data[:words])


def test_the_cache_size_is_plausible():
    assert 1 << 16 <= last_level_cache() <= 1 << 32
