// A block: two registers' worth of consecutive elements of a row, widened to float.
//
// `load` puts the elements in whatever lanes they reach most cheaply, and `store` is its inverse:
// a bf16 word holds two elements, so a shift gives the even ones and a mask the odd ones, and
// nothing is ever shuffled. Sums over a row do not depend on the order. `load_ordered` keeps the
// order of memory, lo before hi, for where a lane meets a lane of something else.
#pragma once

#include "kgen/cpu/dtypes.hpp"
#include "kgen/cpu/row.hpp"

namespace kgen {

inline constexpr int kBlock = 2 * kLanes;

struct Pair {
  Vec lo, hi;
};

KGEN_INLINE Pair load_pair(const float* p) { return {load(p), load(p + kLanes)}; }

KGEN_INLINE void store_pair(float* p, Pair v) {
  store(p, v.lo);
  store(p + kLanes, v.hi);
}

KGEN_INLINE Pair operator*(Pair v, Vec x) { return {v.lo * x, v.hi * x}; }

KGEN_INLINE Pair fma(Pair a, Vec x, Pair c) { return {fma(a.lo, x, c.lo), fma(a.hi, x, c.hi)}; }

struct WordPair {
  Words lo, hi;
};

/// The 16-bit elements of a register, one to a word, in order.
KGEN_INLINE WordPair widen_halves(Words words) {
  using Halves = uint16_t __attribute__((vector_size(kVecBytes / 2)));
  Halves halves[2];
  std::memcpy(halves, &words, sizeof words);
  return {__builtin_convertvector(halves[0], Words), __builtin_convertvector(halves[1], Words)};
}

/// Block<T>::load<N>(row, first): elements [first, first + N) of a row, 0 past them.
/// Block<T>::store<N>(p, v): the first N elements of what `load` gave, to p.
/// Block<T>::lane(i): the lane of element i, counting lo's lanes and then hi's.
template <class T>
struct Block;

template <>
struct Block<float> {
  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load(Row<float, W> row, int first) {
    return {as_floats(row.template bits<N>(first)), as_floats(row.template bits<N - kLanes>(first + kLanes))};
  }

  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load_ordered(Row<float, W> row, int first) {
    return load<N>(row, first);
  }

  template <int N = kBlock>
  KGEN_INLINE static void store(float* p, Pair v) {
    float all[kBlock];
    store_pair(all, v);
    std::memcpy(p, all, N * sizeof(float));
  }

  static constexpr int lane(int i) { return i; }
};

template <>
struct Block<bf16> {
  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load(Row<bf16, W> row, int first) {
    const Words words = row.template bits<N>(first);
    return {as_floats(words << 16), as_floats(words & 0xffff0000u)};
  }

  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load_ordered(Row<bf16, W> row, int first) {
    const auto [lo, hi] = widen_halves(row.template bits<N>(first));
    return {as_floats(lo << 16), as_floats(hi << 16)};
  }

  template <int N = kBlock>
  KGEN_INLINE static void store(bf16* p, Pair v) {
    const Words words = rounded(v.lo) >> 16 | (rounded(v.hi) & 0xffff0000u);
    std::memcpy(p, &words, N * sizeof(bf16));
  }

  static constexpr int lane(int i) { return i / 2 + i % 2 * kLanes; }

 private:
  /// Bits whose upper half is the nearest bf16; NaN keeps a bit in that half.
  KGEN_INLINE static Words rounded(Vec v) {
    const Words bits = as_words(v);
    const Words nearest = bits + 0x7fffu + (bits >> 16 & 1u);
    return v == v ? nearest : (bits | 0x400000u);
  }
};

template <>
struct Block<f16> {
  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load(Row<f16, W> row, int first) {
#if defined(KGEN_AVX512) || defined(KGEN_AVX2)
    return load_ordered<N>(row, first);
#else
    const Words words = row.template bits<N>(first);
    return {widen(words & 0xffffu), widen(words >> 16)};
#endif
  }

  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load_ordered(Row<f16, W> row, int first) {
    const Words words = row.template bits<N>(first);
#if defined(KGEN_AVX512)
    const __m512i halves = reinterpret_cast<__m512i>(words);
    return {_mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
            _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1))};
#elif defined(KGEN_AVX2)
    const __m256i halves = reinterpret_cast<__m256i>(words);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
#else
    const auto [lo, hi] = widen_halves(words);
    return {widen(lo), widen(hi)};
#endif
  }

  template <int N = kBlock>
  KGEN_INLINE static void store(f16* p, Pair v) {
    float all[kBlock];
    store_pair(all, v);
    for (int i = 0; i < N; ++i) p[i] = from_float<f16>(all[lane(i)]);
  }

#if defined(KGEN_AVX512) || defined(KGEN_AVX2)
  static constexpr int lane(int i) { return i; }
#else
  static constexpr int lane(int i) { return i / 2 + i % 2 * kLanes; }

 private:
  /// f16 bits in the low half of each word, as kgen::to_float(f16) does it.
  KGEN_INLINE static Vec widen(Words half) {
    const Words magnitude = (half & 0x7fffu) << 13;
    const Words bits = as_words(as_floats(magnitude) * 0x1p112f);
    const Words special = magnitude >= 0x0f800000u ? Words{} + 0x7f800000u : Words{};
    return as_floats(bits | special | (half & 0x8000u) << 16);
  }
#endif
};

}  // namespace kgen
