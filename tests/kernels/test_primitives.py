"""The headers by themselves: conversions, exponentials, the line that work is laid on."""

import ctypes
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

from tests.kernels.harness import NARROW, WIDE, compiled, native, shipped

SOURCE = """
#include "kgen/cpu/combine.hpp"
#include "kgen/cpu/schedule.hpp"
#include "kgen/cpu/tile.hpp"
using namespace kgen;

KGEN_EXPORT void exponentials(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Vec v[1] = {load(x + i)};
    exp2(v);
    store(y + i, v[0]);
  }
}

template <class T>
void around(const float* x, T* narrow, float* back, int64_t count) {
  convert(x, static_cast<int>(count), narrow);
  for (int64_t i = 0; i < count; ++i) back[i] = to_float(narrow[i]);
}
KGEN_EXPORT void around_f16(const float* x, f16* y, float* z, int64_t n) { around(x, y, z, n); }
KGEN_EXPORT void around_bf16(const float* x, bf16* y, float* z, int64_t n) { around(x, y, z, n); }

template <class T>
void through(const T* x, T* y, float* z, int64_t count) {
  for (int64_t i = 0; i < count; i += kBlock) {
    Block<T>::store(y + i, Block<T>::load(Row<T, 0>{x, 0}, static_cast<int>(i)));
    store_pair(z + i, Block<T>::load_ordered(Row<T, 0>{x, 0}, static_cast<int>(i)));
  }
}
KGEN_EXPORT void through_f16(const f16* x, f16* y, float* z, int64_t n) { through(x, y, z, n); }
KGEN_EXPORT void through_bf16(const bf16* x, bf16* y, float* z, int64_t n) { through(x, y, z, n); }

KGEN_EXPORT int64_t places(const int32_t* lengths, int64_t rows, int64_t part, int64_t tile, int64_t chunks,
                           int64_t first, int64_t* out) {
  const Line line(lengths, rows, part, tile, chunks);
  const int64_t units = line.units();
  int64_t count = 0;
  if (first < units) {
    for (auto p = line.at(first); p.unit < units; line.next(p)) {
      const int64_t words[] = {p.unit, p.seq, p.part, p.chunk, p.tile, p.begin, p.end, p.tiles};
      std::memcpy(out + 8 * count++, words, sizeof words);
    }
  }
  return count;
}
"""


@cache
def library(flags: tuple[str, ...]) -> ctypes.CDLL:
    return ctypes.CDLL(str(compiled(SOURCE, (*shipped().targets[native()].flags, *flags))))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.fixture(params=[(), WIDE, NARROW], ids=["native", "wide", "narrow"])
def lib(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return library(request.param)


def test_exp2(lib: ctypes.CDLL) -> None:
    x = np.linspace(-140.0, 0.5, 1 << 16, dtype=np.float32)
    y = np.empty_like(x)
    lib.exponentials(pointer(x), pointer(y), ctypes.c_int64(x.size))
    exact = np.exp2(x.astype(np.float64))
    kept = x >= -126.0
    assert np.max(np.abs(y[kept] / exact[kept] - 1.0)) < 2.4e-7
    assert np.all(y[x < -127.0] == 0.0)


def test_exp2_at_the_edges(lib: ctypes.CDLL) -> None:
    x = np.array([0.0, -0.0, -1.0, -126.0, -np.inf, np.nan, -1e30, -3.0] * 2, dtype=np.float32)
    y = np.empty_like(x)
    lib.exponentials(pointer(x), pointer(y), ctypes.c_int64(x.size))
    assert y[:5].tolist() == [1.0, 1.0, 0.5, 2.0**-126, 0.0]
    assert np.isnan(y[5]) and y[6:8].tolist() == [0.0, 0.125]


@pytest.mark.parametrize(("name", "dtype"), [("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_rounding_to_16_bits(lib: ctypes.CDLL, name: str, dtype: torch.dtype) -> None:
    """Every pattern, every midpoint between neighbours, and just beside the midpoints: as torch rounds."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    exact = torch.from_numpy(bits.view(np.int16)).view(dtype).float().numpy()
    with np.errstate(all="ignore"):
        middle = exact[:-1] / 2 + exact[1:] / 2
        beside = [np.nextafter(middle, np.float32(side), dtype=np.float32) for side in (np.inf, -np.inf)]
    x = np.concatenate([exact, middle, *beside])
    narrow, back = np.empty(x.size, np.uint16), np.empty_like(x)
    lib[f"around_{name}"](pointer(x), pointer(narrow), pointer(back), ctypes.c_int64(x.size))
    want = torch.from_numpy(x).to(dtype).float().numpy()
    assert np.array_equal(back, want, equal_nan=True)
    assert np.array_equal(np.signbit(back[~np.isnan(back)]), np.signbit(want[~np.isnan(want)]))


@pytest.mark.parametrize(("name", "dtype"), [("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_blocks_there_and_back(lib: ctypes.CDLL, name: str, dtype: torch.dtype) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    exact = torch.from_numpy(bits.view(np.int16)).view(dtype)
    again, ordered = np.empty_like(bits), np.empty(bits.size, np.float32)
    lib[f"through_{name}"](pointer(bits), pointer(again), pointer(ordered), ctypes.c_int64(bits.size))
    number = ~exact.isnan().numpy()
    assert np.array_equal(again[number], bits[number])
    assert torch.from_numpy(again.view(np.int16)).view(dtype)[~torch.from_numpy(number)].isnan().all()
    assert np.array_equal(ordered, exact.float().numpy(), equal_nan=True)


LENGTHS = [0, 1, 64, 65, 1000, 0, 129]


@pytest.mark.parametrize(("part", "tile", "chunks"), [(1 << 40, 32, 1), (128, 32, 3), (96, 64, 2)])
def test_the_line_of_work(part: int, tile: int, chunks: int) -> None:
    """Places follow one another without a gap, cover every token once, and any unit can be a start."""

    def places(first: int) -> list[list[int]]:
        lengths, out = np.array(LENGTHS, np.int32), np.zeros((200, 8), np.int64)
        words = [ctypes.c_int64(value) for value in (len(LENGTHS), part, tile, chunks, first)]
        count = library(()).places(pointer(lengths), *words, pointer(out))
        return out[:count].tolist()

    every = places(0)
    assert all(one[0] + one[7] == two[0] for one, two in pairwise(every))
    for seq, length in enumerate(LENGTHS):
        for chunk in range(chunks):
            spans = [(p[5], p[6]) for p in every if p[1] == seq and p[3] == chunk]
            assert spans[0][0] == 0 and spans[-1][1] == length
            assert all(one[1] == two[0] for one, two in pairwise(spans))
            assert all(p[7] == max(1, -(-(p[6] - p[5]) // tile)) for p in every)
    for at in every:
        for step in range(at[7]):
            started = places(at[0] + step)
            assert started[0] == [at[0] + step, *at[1:4], step, *at[5:]]
            assert started[1:] == every[every.index(at) + 1 :]
