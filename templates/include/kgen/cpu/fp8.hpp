// 8-bit floats as caches keep them, of the OCP kind: e4m3 has no infinities, and one NaN of either sign.
//
// Every code is exact in bf16, in f16 and in float, so that what is computed with them is what is computed
// with any other cache; the scale of a cache is the kernel's affair.
#pragma once

#include "kgen/cpu/dot.hpp"

namespace kgen {

struct fp8_e4m3 {
  uint8_t bits;
};

struct fp8_e5m2 {
  uint8_t bits;
};

/// kShift: from the place of a code's lowest bit to where a float keeps it. kBias: of the exponent. kMost:
/// the code of the largest finite value; past it are infinity, where there is one, and NaN.
template <class T>
struct Fp8;

template <>
struct Fp8<fp8_e4m3> {
  static constexpr int kShift = 20, kBias = 7;
  static constexpr uint32_t kMost = 0x7e, kInfinite = 0x7f, kNan = 0x7f;
};

template <>
struct Fp8<fp8_e5m2> {
  static constexpr int kShift = 21, kBias = 15;
  static constexpr uint32_t kMost = 0x7b, kInfinite = 0x7c, kNan = 0x7f;
};

/// 2^n as a float, for n that have a normal one.
constexpr float power_of_two(int n) {
  float x = 1.0f;
  for (; n > 0; --n) x *= 2.0f;
  for (; n < 0; ++n) x *= 0.5f;
  return x;
}

/// The upper half of the float that a code's magnitude means: a bf16.
template <class T>
constexpr uint32_t bf16_of(uint32_t magnitude) {
  constexpr int kMantissa = 23 - Fp8<T>::kShift;
  if (magnitude > Fp8<T>::kMost)
    return magnitude == Fp8<T>::kInfinite && magnitude != Fp8<T>::kNan ? 0x7f80 : 0x7fc0;
  if (magnitude == 0) return 0;
  uint32_t exponent = magnitude >> kMantissa, fraction = magnitude & ((1u << kMantissa) - 1);
  int lower = 0;
  if (exponent == 0) {  // shift the leading one to where it is not written
    exponent = 1;
    for (; (fraction >> kMantissa) == 0; ++lower) fraction <<= 1;
    fraction &= (1u << kMantissa) - 1;
  }
  return (exponent - lower + 127 - Fp8<T>::kBias) << 7 | fraction << (7 - kMantissa);
}

inline float to_float(fp8_e4m3 x) {
  return bits_float((bf16_of<fp8_e4m3>(x.bits & 0x7fu) | uint32_t{x.bits & 0x80u} << 8) << 16);
}

inline float to_float(fp8_e5m2 x) {
  return bits_float((bf16_of<fp8_e5m2>(x.bits & 0x7fu) | uint32_t{x.bits & 0x80u} << 8) << 16);
}

/// As many codes as a block has elements.
using Codes = uint8_t __attribute__((vector_size(kBlock)));

/// The first N codes of a row from `first` on; the rest are 0 and their memory is not touched.
template <int N, class T, int W>
KGEN_INLINE Codes load_codes(Row<T, W> row, int first) {
  constexpr int kCount = min(N, kBlock);
  constexpr int kPiece = W == 0 ? kCount : W & -W;  // that lies in one group wherever it begins
  Codes codes{};
  if constexpr (kCount <= kPiece) {
    std::memcpy(&codes, row.at(first), max(kCount, 0));
  } else if constexpr (kCount == 32 && kPiece == 16) {
    using Half = uint8_t __attribute__((vector_size(16)));
    Half half[2];
    std::memcpy(&half[0], row.at(first), 16);
    std::memcpy(&half[1], row.at(first + 16), 16);
    std::memcpy(&codes, half, 32);
  } else {
    uint8_t bytes[kBlock] = {};
    for (int i = 0; i < kCount; i += kPiece)
      std::memcpy(bytes + i, row.at(first + i), min(kPiece, kCount - i));
    std::memcpy(&codes, bytes, kBlock);
  }
  return codes;
}

#if defined(KGEN_AVX512) && defined(__AVX512VBMI__)
#define KGEN_CODE_TABLES 1

/// The bytes of a bf16 by the magnitude of a code.
template <class T>
struct CodeTables {
  alignas(64) uint8_t low[128] = {}, high[128] = {};

  constexpr CodeTables() {
    for (uint32_t code = 0; code < 128; ++code) {
      low[code] = static_cast<uint8_t>(bf16_of<T>(code));
      high[code] = static_cast<uint8_t>(bf16_of<T>(code) >> 8);
    }
  }
};

template <class T>
inline constexpr CodeTables<T> kCodeTables{};

/// Codes as bf16, in order, two in a word: a table gives each byte.
template <class T>
KGEN_INLINE Words bf16_words(Codes codes) {
  using Bytes = uint8_t __attribute__((vector_size(64)));
  const Bytes twice = __builtin_shufflevector(codes, codes, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8,
                                              8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 16, 16,
                                              17, 17, 18, 18, 19, 19, 20, 20, 21, 21, 22, 22, 23, 23, 24, 24,
                                              25, 25, 26, 26, 27, 27, 28, 28, 29, 29, 30, 30, 31, 31);
  Words tables[4];
  std::memcpy(tables, &kCodeTables<T>, sizeof tables);
  const uint64_t odd = 0xaaaaaaaaaaaaaaaau;
  Words words = reinterpret_cast<Words>(twice);
  asm("vpermi2b %2, %1, %0%{%3%}" : "+v"(words) : "v"(tables[2]), "v"(tables[3]), "Yk"(odd));
  asm("vpermi2b %2, %1, %0%{%3%}" : "+v"(words) : "v"(tables[0]), "v"(tables[1]), "Yk"(~odd));
  return words | (reinterpret_cast<Words>(twice) & 0x80008000u);
}
#elif defined(KGEN_DOTS_OF_BF16)
template <class T>
KGEN_INLINE Words bf16_words(Codes codes) {
  Words words{};
  for (int i = 0; i < kBlock; ++i) {
    const uint32_t bits = bf16_of<T>(codes[i] & 0x7fu) | (codes[i] & 0x80u) << 8;
    words[i / 2] |= bits << i % 2 * 16;
  }
  return words;
}
#endif

/// 8-bit floats of a block. They are never stored from registers: `quantise` makes codes.
template <class T>
struct Fp8Block {
#if defined(KGEN_CODE_TABLES)
  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load(Row<T, W> row, int first) {
    const Words words = bf16_words<T>(load_codes<N>(row, first));
    return {as_floats(words << 16), as_floats(words & 0xffff0000u)};
  }

  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load_ordered(Row<T, W> row, int first) {
    Words lo, hi;
    widen(bf16_words<T>(load_codes<N>(row, first)), lo, hi);
    return {as_floats(lo), as_floats(hi)};
  }

  static constexpr int lane(int i) { return Block<bf16>::lane(i); }
#else
  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load(Row<T, W> row, int first) {
    return load_ordered<N>(row, first);
  }

  template <int N = kBlock, int W>
  KGEN_INLINE static Pair load_ordered(Row<T, W> row, int first) {
    return convert(load_codes<N>(row, first));
  }

  static constexpr int lane(int i) { return i; }

 private:
#if defined(KGEN_AVX512) || defined(KGEN_AVX2)
  /// By way of f16, whose exponent e4m3 fills from 8 less on: 2^8 makes up for that, subnormals included.
  KGEN_INLINE static Pair convert(Codes codes) {
    using Bytes = int8_t __attribute__((vector_size(kBlock)));
    using Halves = uint16_t __attribute__((vector_size(2 * kBlock)));
    using Signed = int16_t __attribute__((vector_size(2 * kBlock)));
    const auto wide =
        reinterpret_cast<Halves>(__builtin_convertvector(reinterpret_cast<Bytes>(codes), Signed));
    Halves halves;
    if constexpr (Fp8<T>::kShift == 21) {
      halves = wide << 8;
    } else {
      halves = (wide << 7) & 0xbfff;
      halves |= reinterpret_cast<Halves>((halves & 0x7fff) == 0x3f80);  // NaN
    }
    Pair pair = f16_pair(reinterpret_cast<Words>(halves));
    if constexpr (Fp8<T>::kShift == 20) pair = pair * broadcast(256.0f);
    return pair;
  }
#else
  KGEN_INLINE static Pair convert(Codes codes) {
    uint8_t bytes[kBlock];
    std::memcpy(bytes, &codes, kBlock);
    return {convert(bytes), convert(bytes + kLanes)};
  }

  /// The bits of a code where a float has them; a product makes up for the bias, subnormals included.
  KGEN_INLINE static Vec convert(const uint8_t* bytes) {
    using Bytes = uint8_t __attribute__((vector_size(kLanes)));
    Bytes codes;
    std::memcpy(&codes, bytes, kLanes);
    const Words wide = __builtin_convertvector(codes, Words);
    const Words magnitude = wide & 0x7fu;
    const Words bits = as_words(as_floats(magnitude << Fp8<T>::kShift) * power_of_two(127 - Fp8<T>::kBias));
    const Words special = magnitude > Fp8<T>::kMost ? Words{} + 0x7f800000u : Words{};
    const Words nan =
        magnitude > Fp8<T>::kMost + (Fp8<T>::kNan != Fp8<T>::kInfinite) ? Words{} + 0x7fc00000u : special;
    return as_floats(bits | nan | (wide & 0x80u) << 24);
  }
#endif
#endif
};

template <>
struct Block<fp8_e4m3> : Fp8Block<fp8_e4m3> {};

template <>
struct Block<fp8_e5m2> : Fp8Block<fp8_e5m2> {};

}  // namespace kgen
