import dataclasses
import functools
import operator

import pytest
import torch

from kgen import reference
from kgen.bench.ceiling import ceiling
from kgen.bench.peers import COMPILED, Work, dense_peers
from kgen.bench.pool import ROTATION, UNUSED, Shape, draw_pool, last_level_cache
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
RAGGED = dataclasses.replace(SHAPE, batch=5, ragged=True)


@pytest.fixture(scope="module")
def pool():
    return draw_pool(SHAPE, LAYOUTS["bhsd_vt"], cache_bytes=2 * SHAPE.kv_bytes)


@pytest.fixture(scope="module")
def ragged():
    return draw_pool(RAGGED, LAYOUTS["bhsd_vt"], cache_bytes=RAGGED.kv_bytes)


def test_shape_counts_pages_and_bytes():
    assert SHAPE.pages == 3
    assert SHAPE.kv_bytes == 2 * 2 * 37 * 2 * 32 * 4
    assert dataclasses.replace(SHAPE, dtype="bf16").kv_bytes == SHAPE.kv_bytes // 2
    assert dataclasses.replace(SHAPE, kv_dtype="fp8_e5m2").kv_bytes == SHAPE.kv_bytes // 4


def test_tables_share_no_page_and_outgrow_the_cache(pool):
    ids = torch.cat([table.flatten() for table in pool.tables])
    assert sorted(ids.tolist()) == list(range(pool.k_cache.shape[0]))
    assert len(pool.tables) == 1 + ROTATION * 2
    assert pool.rotation_bytes == ROTATION * 2 * SHAPE.kv_bytes
    assert not torch.equal(ids, ids.sort().values)


def test_a_pool_of_8_bits_stands_for_normal_values():
    shape = dataclasses.replace(SHAPE, kv_dtype="fp8_e4m3")
    made = draw_pool(shape, LAYOUTS["bshd"], cache_bytes=shape.kv_bytes)
    assert (made.q.dtype, made.k_cache.dtype) == (torch.float32, torch.float8_e4m3fn)
    assert made.page_bytes == 16 * 2 * 32
    k, v = made.row(1, 1)
    assert k.dtype == torch.float64 and k.shape == (37, 2, 32)
    assert 0.8 < float(k.std()) < 1.2 and 0.8 < float(v.std()) < 1.2
    gathered, _ = made.contiguous(1)
    assert gathered.dtype == torch.float32
    assert torch.equal(gathered[1, :, :37].transpose(0, 1), k.float())


def test_even_a_large_set_has_another_to_turn_to():
    assert len(draw_pool(SHAPE, LAYOUTS["bshd"], cache_bytes=1).tables) == 2


def test_contiguous_holds_what_the_table_says(pool):
    k, v = pool.contiguous(3)
    assert k.shape == v.shape == (2, 2, 37, 32)
    want, _ = reference.gather(pool.k_cache, pool.v_cache, pool.layout, pool.tables[3][1], 37)
    assert torch.equal(k[1], want.transpose(0, 1))


@pytest.mark.parametrize("name", [name for name in dense_peers(False) if name not in COMPILED])
@pytest.mark.parametrize("which", ["pool", "ragged"])
def test_peers_compute_the_same_attention(request, which, name):
    pool = request.getfixturevalue(which)
    got = dense_peers(False)[name](Work(pool, 0.3))(1)
    want, _ = reference.paged_attention(
        pool.q, pool.k_cache, pool.v_cache, pool.tables[1], pool.seq_lens, 0.3, pool.layout
    )
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def test_lengths_are_drawn_once_and_for_all(ragged):
    lengths = RAGGED.lengths
    assert lengths == dataclasses.replace(RAGGED).lengths == tuple(ragged.seq_lens.tolist())
    assert min(lengths) >= 1 and max(lengths) <= 37 and len(set(lengths)) > 2
    assert dataclasses.replace(RAGGED, seed=1).lengths != lengths
    many = dataclasses.replace(RAGGED, batch=4096, context=100).lengths
    assert set(many) == set(range(1, 101)) and abs(sum(many) / 4096 - 50.5) < 2
    assert RAGGED.kv_bytes == 2 * sum(lengths) * 2 * 32 * 4
    assert RAGGED.longest == max(lengths) and RAGGED.pages == -(-max(lengths) // 16)


def test_a_ragged_pool_holds_the_pages_of_its_rows_and_no_more(ragged):
    used = [table[row, :count] for table in ragged.tables for row, count in enumerate(RAGGED.row_pages)]
    assert sorted(torch.cat(used).tolist()) == list(range(ragged.k_cache.shape[0]))
    assert sum((table == UNUSED).sum() for table in ragged.tables) == sum(
        table.numel() for table in ragged.tables
    ) - len(torch.cat(used))
    in_order = ragged.in_order().tables[2]
    rows = [ragged.tables[2][row, :count] for row, count in enumerate(RAGGED.row_pages)]
    assert torch.equal(in_order, torch.cat(rows))


def test_the_page_loop_reads_the_pages_of_ragged_rows(ragged):
    used = ragged.in_order().tables[1].long()
    assert ceiling(2).pages(ragged.in_order(), 1) == xor(ragged.k_cache[used]) ^ xor(ragged.v_cache[used])


@pytest.mark.parametrize("sets", [2, 3, 4, 5, 9])
def test_streamed_spans_go_round_as_many_bytes_as_tables(sets):
    drawn = draw_pool(SHAPE, LAYOUTS["bshd"], cache_bytes=(sets - 1) * SHAPE.kv_bytes // ROTATION)
    assert len(drawn.tables) == sets
    spans = [drawn.span(number) for number in range(2 * sets)]
    assert all(span.numel() * 4 == SHAPE.kv_bytes for span in spans)
    starts = [span.data_ptr() for span in spans]
    period = next(n for n in range(1, 2 * sets) if starts[n] == starts[0])
    assert period >= sets // 2 * 2
    assert len(set(starts[:period])) == period


def xor(tensor: torch.Tensor) -> int:
    return functools.reduce(operator.xor, tensor.contiguous().view(torch.int64).flatten().tolist(), 0)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_the_page_loops_read_these_pages_and_no_others(pool, threads, ahead):
    table = pool.tables[4].flatten().long()
    assert ceiling(threads).pages(pool, 4, ahead=ahead) == xor(pool.k_cache[table]) ^ xor(pool.v_cache[table])


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("words", [32, 4096, 5000 * 32])
def test_the_streaming_read_reads_everything(threads, words):
    data = torch.randint(-(2**62), 2**62, (words + 8,), generator=torch.Generator().manual_seed(0))
    assert ceiling(threads).stream(data, words * 8) == xor(data[:words])


def test_the_cache_size_is_plausible():
    assert 1 << 16 <= last_level_cache() <= 1 << 32
