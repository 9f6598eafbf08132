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

/// The 16-bit elements of a register in order, each in the high half of a word of its own.
KGEN_INLINE void widen(Words words, Words& lo, Words& hi) {
  using Halves = uint16_t __attribute__((vector_size(kVecBytes)));
  const Halves halves = reinterpret_cast<Halves>(words);
  const Halves none{};
#if KGEN_LANES == 16
  lo = reinterpret_cast<Words>(__builtin_shufflevector(none, halves, 0, 32, 0, 33, 0, 34, 0, 35, 0, 36, 0, 37,
                                                       0, 38, 0, 39, 0, 40, 0, 41, 0, 42, 0, 43, 0, 44, 0, 45,
                                                       0, 46, 0, 47));
  hi = reinterpret_cast<Words>(__builtin_shufflevector(none, halves, 0, 48, 0, 49, 0, 50, 0, 51, 0, 52, 0, 53,
                                                       0, 54, 0, 55, 0, 56, 0, 57, 0, 58, 0, 59, 0, 60, 0, 61,
                                                       0, 62, 0, 63));
#elif KGEN_LANES == 8
  lo = reinterpret_cast<Words>(
      __builtin_shufflevector(none, halves, 0, 16, 0, 17, 0, 18, 0, 19, 0, 20, 0, 21, 0, 22, 0, 23));
  hi = reinterpret_cast<Words>(
      __builtin_shufflevector(none, halves, 0, 24, 0, 25, 0, 26, 0, 27, 0, 28, 0, 29, 0, 30, 0, 31));
#else
  lo = reinterpret_cast<Words>(__builtin_shufflevector(none, halves, 0, 8, 0, 9, 0, 10, 0, 11));
  hi = reinterpret_cast<Words>(__builtin_shufflevector(none, halves, 0, 12, 0, 13, 0, 14, 0, 15));
#endif
}

#if defined(KGEN_AVX512) || defined(KGEN_AVX2)
/// The f16 of a register as floats, in order.
KGEN_INLINE Pair f16_pair(Words words) {
  using Half = short __attribute__((vector_size(kVecBytes / 2)));
  Half half[2];
  std::memcpy(half, &words, sizeof words);
#if defined(KGEN_AVX512)
  constexpr int kRoundAsSet = 4;
  return {__builtin_ia32_vcvtph2ps512_mask(half[0], Vec{}, -1, kRoundAsSet),
          __builtin_ia32_vcvtph2ps512_mask(half[1], Vec{}, -1, kRoundAsSet)};
#else
  return {__builtin_ia32_vcvtph2ps256(half[0]), __builtin_ia32_vcvtph2ps256(half[1])};
#endif
}
#endif

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
    Words lo, hi;
    widen(row.template bits<N>(first), lo, hi);
    return {as_floats(lo), as_floats(hi)};
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
    return {from_high_half(words << 16), from_high_half(words & 0xffff0000u)};
#endif
  }

  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load_ordered(Row<f16, W> row, int first) {
    const Words words = row.template bits<N>(first);
#if defined(KGEN_AVX512) || defined(KGEN_AVX2)
    return f16_pair(words);
#else
    Words lo, hi;
    widen(words, lo, hi);
    return {from_high_half(lo), from_high_half(hi)};
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
  /// As kgen::to_float(f16), of f16 bits in the high half of each word.
  KGEN_INLINE static Vec from_high_half(Words words) {
    const Words magnitude = (words & 0x7fff0000u) >> 3;
    const Words bits = as_words(as_floats(magnitude) * 0x1p112f);
    const Words special = magnitude >= 0x0f800000u ? Words{} + 0x7f800000u : Words{};
    return as_floats(bits | special | (words & 0x80000000u));
  }
#endif
};

/// Whether blocks of both types have their elements in the same lanes.
template <class A, class B>
constexpr bool same_lanes() {
  for (int i = 0; i < kBlock; ++i) {
    if (Block<A>::lane(i) != Block<B>::lane(i)) return false;
  }
  return true;
}

/// Writes scale times a row of kHeadDim floats, which lies block by block in the lanes of KV's.
template <class KV, int kHeadDim, class T>
KGEN_INLINE void store_row(const float* row, float scale, T* to) {
  constexpr int kFull = kHeadDim / kBlock, kTail = kHeadDim % kBlock;
  if constexpr (same_lanes<T, KV>()) {
    const Vec factor = broadcast(scale);
    for (int b = 0; b < kFull; ++b) Block<T>::store(to + b * kBlock, load_pair(row + b * kBlock) * factor);
    if constexpr (kTail > 0) {
      Block<T>::template store<kTail>(to + kFull * kBlock, load_pair(row + kFull * kBlock) * factor);
    }
  } else {
    for (int d = 0; d < kHeadDim; ++d) {
      to[d] = from_float<T>(row[d / kBlock * kBlock + Block<KV>::lane(d % kBlock)] * scale);
    }
  }
}

}  // namespace kgen
