"""Tiles of keys and values as words, and products with them."""

import ctypes
from functools import cache

import numpy as np
import pytest
import torch

from tests.kernels.harness import DTYPES, NARROW, WIDE, compiled, native, shipped

SOURCE = """
#include "kgen/cpu/packed.hpp"
using namespace kgen;

using T = %(ctype)s;
constexpr int kHeadDim = %(dim)d, kTokens = 64;
constexpr int kPadded = (kHeadDim + kBlock - 1) / kBlock * kBlock;
constexpr int kWords = row_words<T>(kHeadDim);
constexpr int kDepth = Arithmetic<T>::kDepth;
constexpr int R = 6, C = kProductColumns;

/// scores[R][kTokens] of R queries with `count` tokens, whose dims lie `stride` apart.
KGEN_EXPORT void scores(const T* q, int negative, const T* keys, int64_t row, int64_t stride, int count,
                        float* out) {
  alignas(64) uint32_t queries[R * kWords], packed[kWords * kTokens];
  for (int r = 0; r < R; ++r) pack_query<T, kHeadDim>(q + r * kHeadDim, negative, queries + r * kWords);
  if (stride == 1) {
    pack_keys<T, kHeadDim, kTokens>(count, [&](int t) { return Row<T, 0>{keys + t * row, 0}; }, packed);
  } else {
    pack_keys<T, kHeadDim, kTokens>(count, [&](int t) { return Row<T, 1>{keys + t * row, stride}; }, packed);
  }
  for (int t = 0; t < kTokens; t += C * kLanes) {
    product<T, R, C, true>(queries, kWords, packed + t, kTokens, kWords, nullptr, out + t, kTokens);
  }
}

/// out[R][kHeadDim] = shrink * out + weights[R][kTokens] times the values of `count` tokens.
KGEN_EXPORT void outputs(const float* weights, const T* values, int count, const float* shrink, float* out) {
  alignas(64) uint32_t rows[R * kTokens / kDepth], packed[kTokens / kDepth * kPadded];
  for (int r = 0; r < R; ++r) pack_weights<T>(weights + r * kTokens, kTokens, rows + r * kTokens / kDepth);
  pack_values<T, kHeadDim>(count, [&](int t) { return Row<T, 0>{values + t * kHeadDim, 0}; }, packed);
  float sums[R * kPadded] = {};
  for (int r = 0; r < R; ++r) {
    for (int d = 0; d < kHeadDim; ++d) {
      sums[r * kPadded + d / kBlock * kBlock + Block<T>::lane(d %% kBlock)] = out[r * kHeadDim + d];
    }
  }
  const int steps = (count + kDepth - 1) / kDepth;
  for (int d = 0; d < kPadded; d += kBlock) {
    product<T, R, 2, false>(rows, kTokens / kDepth, packed + d, kPadded, steps, shrink, sums + d, kPadded);
  }
  for (int r = 0; r < R; ++r) {
    for (int d = 0; d < kHeadDim; ++d) {
      out[r * kHeadDim + d] = sums[r * kPadded + d / kBlock * kBlock + Block<T>::lane(d %% kBlock)];
    }
  }
}

KGEN_EXPORT void transposed(uint32_t* words) {
  Words m[kLanes];
  for (int i = 0; i < kLanes; ++i) std::memcpy(&m[i], words + i * kLanes, kVecBytes);
  transpose(m);
  for (int i = 0; i < kLanes; ++i) std::memcpy(words + i * kLanes, &m[i], kVecBytes);
}
KGEN_EXPORT int lanes() { return kLanes; }
"""

ROWS, TOKENS = 6, 64
CTYPES = {"f32": "float", "f16": "f16", "bf16": "bf16"}


@cache
def library(dtype: str, dim: int, flags: tuple[str, ...]) -> ctypes.CDLL:
    source = SOURCE % {"ctype": CTYPES[dtype], "dim": dim}
    return ctypes.CDLL(str(compiled(source, (*shipped().targets[native()].flags, *flags))))


@pytest.fixture(params=[(), WIDE, NARROW], ids=["native", "wide", "narrow"])
def flags(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return request.param


def data(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def test_transpose(flags: tuple[str, ...]) -> None:
    lib = library("f32", 32, flags)
    lanes = lib.lanes()
    words = np.arange(lanes * lanes, dtype=np.uint32).reshape(lanes, lanes)
    got = words.copy()
    lib.transposed(ctypes.c_void_p(got.ctypes.data))
    assert np.array_equal(got, words.T)


@pytest.mark.parametrize("dtype", CTYPES)
@pytest.mark.parametrize(("dim", "count"), [(128, 64), (72, 37), (40, 1)])
@pytest.mark.parametrize("spread", [1, 3])
def test_scores(flags: tuple[str, ...], dtype: str, dim: int, count: int, spread: int) -> None:
    """Tokens that are not there count 0, whatever memory holds."""
    lib = library(dtype, dim, flags)
    torch.manual_seed(dim + count)
    q = torch.randn(ROWS, dim).to(DTYPES[dtype])
    keys = torch.full((TOKENS, dim * spread), torch.nan).to(DTYPES[dtype])
    keys[:count, ::spread] = torch.randn(count, dim).to(DTYPES[dtype])
    out = torch.full((ROWS, TOKENS), torch.nan)
    size = [ctypes.c_int64(dim * spread), ctypes.c_int64(spread)]
    lib.scores(data(q), 1, data(keys), *size, count, data(out))
    want = torch.zeros(ROWS, TOKENS, dtype=torch.float64)
    want[:, :count] = -q.double() @ keys[:count, ::spread].double().T
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", CTYPES)
@pytest.mark.parametrize(("dim", "count"), [(128, 64), (72, 37), (40, 1)])
def test_outputs(flags: tuple[str, ...], dtype: str, dim: int, count: int) -> None:
    """Weights of tokens past the last are 0; the values there may be anything."""
    lib = library(dtype, dim, flags)
    torch.manual_seed(dim + count)
    weights = torch.zeros(ROWS, TOKENS)
    # what bf16 holds exactly, so that rounding to it changes nothing
    weights[:, :count] = torch.rand(ROWS, count).bfloat16().float()
    values = torch.full((TOKENS, dim), torch.nan).to(DTYPES[dtype])
    values[:count] = torch.randn(count, dim).to(DTYPES[dtype])
    shrink, out = torch.rand(ROWS), torch.randn(ROWS, dim)
    want = out.double() * shrink.double()[:, None] + weights[:, :count].double() @ values[:count].double()
    lib.outputs(data(weights), data(values), count, data(shrink), data(out))
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=2e-5)
