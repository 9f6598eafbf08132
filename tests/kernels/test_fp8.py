"""8-bit floats in registers: every code to floats and bf16, and every kind of quotient to a code."""

import ctypes
import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch

from kgen.fp8 import FORMATS
from kgen.quantise import quantised, values_of
from kgen.targets.host import host_features
from tests.kernels.harness import NARROW, WIDE, compiled, native, shipped

SOURCE = """
#include "kgen/cpu/quantise.hpp"
using namespace kgen;

template <class T>
void read(const T* codes, float* some, float* ordered, float* one) {
  for (int i = 0; i < 256; i += kBlock) {
    store_pair(ordered + i, Block<T>::load_ordered(Row<T, 0>{codes, 0}, i));
    float lanes[kBlock];
    store_pair(lanes, Block<T>::load(Row<T, 0>{codes, 0}, i));
    for (int j = 0; j < kBlock; ++j) some[i + j] = lanes[Block<T>::lane(j)];
    for (int j = 0; j < kBlock; ++j) one[i + j] = to_float(codes[i + j]);
  }
}

/// q . keys over 24 elements.
template <class Q, class T, int W>
float dot(const Q* q, Row<T, W> keys) {
  using D = Dot<Q, T>;
  const Row<Q, 0> row{q, 0};
  constexpr int kWhole = 24 / kBlock * kBlock;
  Vec sums{};
  for (int i = 0; i < kWhole; i += kBlock) D::accumulate(sums, D::query(row, i), D::load(keys, i));
  if constexpr (kWhole < 24) {
    constexpr int kRest = 24 - kWhole;
    D::accumulate(sums, D::template query<kRest>(row, kWhole), D::template load<kRest>(keys, kWhole));
  }
  return reduce(sums, sums, sums, sums, Add{})[0];
}

/// The same keys twice: behind each other, and in groups of 16 that lie `stride` apart.
template <class Q, class T>
void dots(const Q* q, const T* keys, const T* grouped, int64_t stride, float* sums) {
  sums[0] = dot(q, Row<T, 0>{keys, 0});
  sums[1] = dot(q, Row<T, 16>{grouped, stride});
}

#define DOTS(T, Q, NAME)                                                                    \\
  KGEN_EXPORT void NAME(const Q* q, const T* k, const T* g, int64_t stride, float* sums) { \\
    dots(q, k, g, stride, sums);                                                            \\
  }
#define ALL(T)                                                                                     \\
  DOTS(T, float, dots_##T##_f32)                                                                   \\
  DOTS(T, f16, dots_##T##_f16)                                                                     \\
  DOTS(T, bf16, dots_##T##_bf16)                                                                   \\
  KGEN_EXPORT void read_##T(const T* c, float* s, float* o, float* f) { read(c, s, o, f); }        \\
  KGEN_EXPORT void write_40_##T(const bf16* x, float scale, T* to) { quantise<40>(x, scale, to); } \\
  KGEN_EXPORT void write_##T(const float* x, int64_t n, float scale, T* to) {                      \\
    for (int64_t i = 0; i < n; i += 64) quantise<64>(x + i, scale, to + i);                        \\
  }
ALL(fp8_e4m3)
ALL(fp8_e5m2)
"""
PAIRS = """
#include "kgen/cpu/fp8_dot.hpp"
#include "kgen/cpu/fp8_rows.hpp"
using namespace kgen;

/// As `dots` does, by chunks of 64, of which the last has 8 elements.
template <class T>
void dots(const bf16* q, const T* keys, const T* grouped, int64_t stride, float* sums) {
  using D = Dot<bf16, T>;
  const auto dot = [&](auto row) {
    Vec both{};
    const Row<bf16, 0> row_of_q{q, 0};
    const auto whole = D::query(row_of_q, 0), rest = D::template query<8>(row_of_q, kChunk);
    D::accumulate(both, whole, D::load(row, 0));
    D::accumulate(both, rest, D::template load<8>(row, kChunk));
    return reduce(both, both, both, both, Add{})[0];
  };
  sums[0] = dot(Row<T, 0>{keys, 0});
  sums[1] = dot(Row<T, 16>{grouped, stride});
}

/// out[64] = 3 * (0.5 * first + 0.25 * second).
template <class T>
void pairs(const T* first, const T* second, float* out) {
  const Bytes one = load_chunk<kChunk>(Row<T, 0>{first, 0}, 0);
  const Bytes two = load_chunk<kChunk>(Row<T, 0>{second, 0}, 0);
  Words values[2][2];
  pair_values<T, 0>(one, two, values[0]);
  pair_values<T, 1>(one, two, values[1]);
  float sums[kChunk];
  for (int n = 0; n < 4; ++n) {
    Vec sum{};
    Bf16Dot::accumulate(sum, Words{} + 0x3e803f00u, values[n / 2][n % 2]);
    store(sums + n * kLanes, sum);
  }
  in_order<kChunk>(sums, 3.0f, out);
}

#define ALL(T)                                                                                             \\
  KGEN_EXPORT void dots_##T(const bf16* q, const T* k, const T* g, int64_t stride, float* sums) {          \\
    dots(q, k, g, stride, sums);                                                                           \\
  }                                                                                                        \\
  KGEN_EXPORT void pairs_##T(const T* one, const T* two, float* out) { pairs(one, two, out); }             \\
  KGEN_EXPORT void rows_##T(const T* codes, bf16* narrow, float* wide) {                                   \\
    widen_row<40>(Row<T, 0>{codes, 0}, narrow);                                                            \\
    widen_row<40>(Row<T, 0>{codes, 0}, wide);                                                              \\
  }
ALL(fp8_e4m3)
ALL(fp8_e5m2)
"""
HOSTS = {"native": None, "avx512": "cpu_avx512", "avx2": "cpu_avx2", "generic": "cpu_generic"}
ODD = {"wide": WIDE, "narrow": NARROW}


@cache
def library(name: str) -> ctypes.CDLL:
    target = shipped().targets[HOSTS.get(name) or native()]
    return ctypes.CDLL(str(compiled(SOURCE, (*target.flags, *ODD.get(name, ())))))


@pytest.fixture(params=[*HOSTS, *ODD])
def lib(request: pytest.FixtureRequest) -> ctypes.CDLL:
    target = shipped().targets[HOSTS.get(request.param) or native()]
    if not set(target.requires) <= host_features():
        pytest.skip(f"the host is no {target.name}")
    return library(request.param)


@pytest.fixture(params=["native", "wide"])
def pairs(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """The forms for hosts that multiply pairs of bf16: by their instructions, and without any."""
    target = shipped().targets[native()]
    if request.param == "native" and "avx512_bf16" not in target.requires:
        pytest.skip("the host multiplies no pairs of bf16")
    flags = target.flags if request.param == "native" else WIDE
    return ctypes.CDLL(str(compiled(PAIRS, flags)))


def data(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


@pytest.fixture(params=["fp8_e4m3", "fp8_e5m2"])
def one(request: pytest.FixtureRequest):
    return FORMATS[request.param, "ocp"]


def codes_of(one) -> torch.Tensor:
    return torch.arange(256, dtype=torch.uint8).view(getattr(torch, one.torch))


def test_every_code_is_read_exactly(lib, one) -> None:
    codes = codes_of(one)
    want = values_of(codes).float()
    found = [torch.full((256,), 3.5) for _ in range(3)]
    lib[f"read_{one.dtype}"](data(codes), *(data(each) for each in found))
    for got in found:
        assert torch.equal(got.isnan(), want.isnan())
        kept = ~want.isnan()
        assert torch.equal(got[kept], want[kept])
        assert torch.equal(got[kept].signbit(), want[kept].signbit())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dots_of_queries_with_codes(lib, one, dtype) -> None:
    """Every code takes part once: at most 24 in a dot, so that all are seen by themselves too."""
    name = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]
    q = torch.zeros(24, dtype=dtype)
    finite = [code for code in range(256) if math.isfinite(one.value(code))]
    for start in range(0, len(finite), 24):
        some = torch.tensor((finite[start:] + finite)[:24], dtype=torch.uint8)
        keys = torch.cat([some, torch.full((8,), one.nan, dtype=torch.uint8)])
        grouped = torch.full((2, 40), one.nan, dtype=torch.uint8)
        grouped[0, :16], grouped[1, :8] = some[:16], some[16:]
        for place in range(24):
            q.zero_()[place] = 0.75
            sums = torch.zeros(2)
            lib[f"dots_{one.dtype}_{name}"](
                data(q), data(keys), data(grouped), ctypes.c_int64(40), data(sums)
            )
            assert sums.tolist() == [0.75 * one.value(int(some[place]))] * 2


def quotients(one) -> torch.Tensor:
    """Every value, every middle between two, what lies just beside those, and what is beyond the largest."""
    finite = [one.value(code) for code in range(one.most_code + 1)]
    middles = [(low + high) / 2 for low, high in itertools.pairwise(finite)]
    exact = torch.tensor([*finite, *middles, one.most * 1.03, one.most * 1.07, 1e30, math.inf, 1e-38, 1e-45])
    beside = [torch.from_numpy(np.nextafter(exact.numpy(), np.float32(side))) for side in (0.0, math.inf)]
    sizes = torch.cat([exact, *beside, torch.tensor([math.nan])])
    both = torch.cat([sizes, -sizes, torch.randn(1000) * one.most / 3, torch.randn(1000) * one.value(4)])
    return torch.nn.functional.pad(both, (0, -len(both) % 64))


@pytest.mark.parametrize("scale", [1.0, 0.037, 3.0e-4, 2.0**-100, 1e20])
def test_quotients_go_to_the_nearest_code(lib, one, scale) -> None:
    torch.manual_seed(0)
    x = (quotients(one) * scale).contiguous()
    got = torch.empty(len(x), dtype=getattr(torch, one.torch))
    lib[f"write_{one.dtype}"](data(x), ctypes.c_int64(len(x)), ctypes.c_float(scale), data(got))
    want = quantised(x, torch.tensor(scale), got.dtype)
    differ = (got.view(torch.uint8) != want.view(torch.uint8)).nonzero().flatten()
    assert differ.numel() == 0, [(x[i].item() / scale, got[i].item(), want[i].item()) for i in differ[:5]]


def test_a_row_that_is_no_whole_block(lib, one) -> None:
    x = torch.randn(40).bfloat16()
    got = torch.full((48,), 0x55, dtype=torch.uint8)
    lib[f"write_40_{one.dtype}"](data(x), ctypes.c_float(0.01), data(got))
    want = quantised(x, torch.tensor(0.01), getattr(torch, one.torch)).view(torch.uint8)
    assert torch.equal(got[:40], want)
    assert (got[40:] == 0x55).all()


def test_the_oracles_table_is_the_definition(one) -> None:
    x = quotients(one)
    want = [one.encode(value) for value in x.tolist()]
    assert quantised(x, torch.ones(1), getattr(torch, one.torch)).view(torch.uint8).tolist() == want


def finite_codes(one) -> list[int]:
    return [code for code in range(256) if math.isfinite(one.value(code))]


def test_chunks_of_pairs_of_bf16(pairs, one) -> None:
    """Every code at every place of a chunk, and in the rest of a row, lines up with its element of q."""
    finite = finite_codes(one)
    for start in range(0, len(finite), 72):
        some = torch.tensor((finite[start:] + finite)[:72], dtype=torch.uint8)
        keys = torch.cat([some, torch.full((8,), one.nan, dtype=torch.uint8)])
        grouped = torch.full((5, 40), one.nan, dtype=torch.uint8)
        for group in range(5):
            part = some[group * 16 : (group + 1) * 16]
            grouped[group, : len(part)] = part
        for place in range(72):
            q = torch.zeros(72, dtype=torch.bfloat16)
            q[place] = -0.75
            sums = torch.zeros(2)
            pairs[f"dots_{one.dtype}"](data(q), data(keys), data(grouped), ctypes.c_int64(40), data(sums))
            assert sums.tolist() == [-0.75 * one.value(int(some[place]))] * 2


def test_values_of_two_tokens_in_order(pairs, one) -> None:
    finite = torch.tensor(finite_codes(one), dtype=torch.uint8)
    for seed in range(8):
        draw = torch.Generator().manual_seed(seed)
        first, second = (finite[torch.randint(len(finite), (64,), generator=draw)] for _ in range(2))
        out = torch.full((64,), math.nan)
        pairs[f"pairs_{one.dtype}"](data(first), data(second), data(out))
        read = [values_of(each.view(getattr(torch, one.torch))) for each in (first, second)]
        torch.testing.assert_close(out.double(), 3 * (0.5 * read[0] + 0.25 * read[1]), rtol=1e-6, atol=0)


def test_rows_are_widened_exactly(pairs, one) -> None:
    codes = codes_of(one)
    for start in (0, 40, 80, 88, 128, 216):
        some = codes[start : start + 40].clone()
        narrow, wide = torch.full((48,), 5.0, dtype=torch.bfloat16), torch.full((48,), 5.0)
        pairs[f"rows_{one.dtype}"](data(some), data(narrow), data(wide))
        for got in (narrow, wide):
            torch.testing.assert_close(got[:40].double(), values_of(some), rtol=0, atol=0, equal_nan=True)
            assert got[40:].eq(5.0).all()
