// The 8-bit floats of KV caches, of the target's flavour, widened exactly and rounded to nearest.
//
//   fp8_e4m3, fp8_e5m2                             storage types, as f16 and bf16 are
//   widen<T>(Vec<fp8, N>)                          f16, bf16 or float of N codes, N a multiple of 4
//   to_float(code), to_float(Vec<fp8, N>)          the same to float
//   widen_columns(rows, columns)                   R rows of N codes as N columns of R values
//   from_float<fp8>(x), from_floats, from_float    to the nearest code, ties to even; what is too large, and
//                                                  infinity, becomes the largest finite value, NaN stays NaN
//   fit_under(limit, largest)                      the power of 2 that moves what is at most `largest` under
//                                                  `limit`, and its inverse, `factor` and `back`
//   largest_finite(values)                         the largest magnitude of those that are numbers
//
// KGEN_FP8_FNUZ: the flavour without infinities and -0, whose bias is one larger; else that of the OCP.
// KGEN_FP8_HARDWARE: the chip converts. A chip that does not widens four codes at once by integer operations.
#pragma once

#include "kgen/gpu/dialect.hpp"

namespace kgen {

struct fp8_e4m3 {
  uint8_t bits;
};

struct fp8_e5m2 {
  uint8_t bits;
};

// A sign, an exponent with a bias, a mantissa; kMost is the code of the largest finite value.
template <int Mantissa, int Bias, int Most, int Nan>
struct Fp8Format {
  static constexpr int kMantissa = Mantissa;
  static constexpr int kBias = Bias;
  static constexpr uint32_t kMost = Most;
  static constexpr uint8_t kNan = Nan;
};

template <typename T>
struct Fp8;
#if defined(KGEN_FP8_FNUZ)
constexpr bool kFnuz = true;
template <>
struct Fp8<fp8_e4m3> : Fp8Format<3, 8, 0x7f, 0x80> {};
template <>
struct Fp8<fp8_e5m2> : Fp8Format<2, 16, 0x7f, 0x80> {};
#else
constexpr bool kFnuz = false;
template <>
struct Fp8<fp8_e4m3> : Fp8Format<3, 7, 0x7e, 0x7f> {};
template <>
struct Fp8<fp8_e5m2> : Fp8Format<2, 15, 0x7b, 0x7f> {};
#endif

namespace bits {

constexpr uint32_t kOneBits = 127u << 23;  // of 1.0f

// 2^exponent.
KGEN_DEVICE float power_of_two(int exponent) {
  return cast<float>(kOneBits + (static_cast<uint32_t>(exponent) << 23));
}

// Four of the eight bytes of two words. A digit of Which, the lowest for the lowest byte of the result, is 0
// to 3 for the bytes of `low`, 4 to 7 for those of `high`.
template <int Which>
KGEN_DEVICE uint32_t pick_bytes(uint32_t low, uint32_t high) {
#if defined(__CUDACC__)
  return __byte_perm(low, high, Which);
#elif defined(__HIP__)
  constexpr uint32_t kSelector =
      (Which & 0xf) | (Which & 0xf0) << 4 | (Which & 0xf00) << 8 | (Which & 0xf000) << 12;
  return __builtin_amdgcn_perm(high, low, kSelector);
#else
  const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
  uint32_t picked = 0;
  for (int i = 0; i < 4; ++i) picked |= (bytes >> (8 * (Which >> (4 * i) & 7)) & 0xff) << (8 * i);
  return picked;
#endif
}

// The value of a code, from the definition.
template <typename T>
KGEN_DEVICE float fp8_value(uint8_t code) {
  using Format = Fp8<T>;
  const uint32_t magnitude = code & 0x7f;
  const float placed = cast<float>(magnitude << (23 - Format::kMantissa));
  const float value = placed * power_of_two(127 - Format::kBias);
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  if (kFnuz) return code == Format::kNan ? __builtin_nanf("") : cast<float>(cast<uint32_t>(value) | sign);
  const bool infinite = Format::kMantissa == 2 && magnitude == Format::kMost + 1;
  const uint32_t past = infinite ? 0x7f800000u : 0x7fc00000u;
  return cast<float>((magnitude > Format::kMost ? past : cast<uint32_t>(value)) | sign);
}

// The nearest code.
template <typename T>
KGEN_DEVICE uint8_t fp8_of(float value) {
  using Format = Fp8<T>;
  constexpr int kDropped = 23 - Format::kMantissa;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - Format::kBias) << Format::kMantissa;
  constexpr uint32_t kLargest = (Format::kMost + kRebias) << kDropped;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - Format::kBias) << 23;
  const uint32_t word = cast<uint32_t>(value);
  const uint32_t sign = word >> 24 & 0x80;
  const uint32_t magnitude = (word & 0x7fffffff) < kLargest ? word & 0x7fffffff : kLargest;
  const uint32_t rounded = magnitude + (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1);
  const uint32_t normal = (rounded >> kDropped) - kRebias;
  // Beside 2^(24 - bias - mantissa) a unit in the last place is the smallest step of a code.
  const float shifter = power_of_two(24 - Format::kBias - Format::kMantissa);
  const uint32_t small = cast<uint32_t>(cast<float>(magnitude) + shifter) - cast<uint32_t>(shifter);
  const uint32_t code = magnitude < kSmallestNormal ? small : normal;
  const uint32_t nan = Format::kNan;
  return static_cast<uint8_t>(value != value ? nan : kFnuz && code == 0 ? 0 : code | sign);
}

}  // namespace bits

KGEN_DEVICE float to_float(fp8_e4m3 code) { return bits::fp8_value<fp8_e4m3>(code.bits); }
KGEN_DEVICE float to_float(fp8_e5m2 code) { return bits::fp8_value<fp8_e5m2>(code.bits); }

template <>
KGEN_DEVICE fp8_e4m3 from_float<fp8_e4m3>(float value) {
  return {bits::fp8_of<fp8_e4m3>(value)};
}
template <>
KGEN_DEVICE fp8_e5m2 from_float<fp8_e5m2>(float value) {
  return {bits::fp8_of<fp8_e5m2>(value)};
}

}  // namespace kgen

// Four codes of a word, as bits::halves<T>(codes) and bits::floats<T>(codes).
#if defined(KGEN_FP8_HARDWARE) && defined(__CUDACC__)
#include "kgen/gpu/fp8_cuda.hpp"
#elif defined(KGEN_FP8_HARDWARE) && defined(__HIP__)
#include "kgen/gpu/fp8_hip.hpp"
#else
#include "kgen/gpu/fp8_software.hpp"
#endif

namespace kgen {

namespace bits {

// bf16 of floats that have no more digits: their upper halves.
KGEN_DEVICE Vec<bf16, 4> upper_halves(const Vec<float, 4>& values) {
  struct Pairs {
    uint32_t at[2];
  } pairs;
  KGEN_UNROLL
  for (int i = 0; i < 2; ++i) {
    const uint32_t low = cast<uint32_t>(values[2 * i]), high = cast<uint32_t>(values[2 * i + 1]);
    pairs.at[i] = pick_bytes<0x7632>(low, high);
  }
  return cast<Vec<bf16, 4>>(pairs);
}

template <typename To>
struct Widening;
template <>
struct Widening<float> {
  template <typename T>
  KGEN_DEVICE static Vec<float, 4> of(uint32_t codes) {
    return floats<T>(codes);
  }
};
template <>
struct Widening<f16> {
  template <typename T>
  KGEN_DEVICE static Vec<f16, 4> of(uint32_t codes) {
    return halves<T>(codes);
  }
};
template <>
struct Widening<bf16> {
  template <typename T>
  KGEN_DEVICE static Vec<bf16, 4> of(uint32_t codes) {
    return upper_halves(floats<T>(codes));
  }
};

// Codes 0 and 1 as two values of 16 bits, and codes 2 and 3.
template <typename To, typename T>
KGEN_DEVICE Vec<uint32_t, 2> pairs_of(uint32_t codes) {
  return cast<Vec<uint32_t, 2>>(Widening<To>::template of<T>(codes));
}

}  // namespace bits

template <typename To, typename T, int N>
KGEN_DEVICE Vec<To, N> widen(const Vec<T, N>& codes) {
  static_assert(N % 4 == 0, "codes are widened four at a time");
  struct Words {
    uint32_t at[N / 4];
  };
  struct Parts {
    Vec<To, 4> at[N / 4];
  } parts;
  const Words words = bits::cast<Words>(codes);
  KGEN_UNROLL
  for (int w = 0; w < N / 4; ++w) parts.at[w] = bits::Widening<To>::template of<T>(words.at[w]);
  return bits::cast<Vec<To, N>>(parts);
}

// Codes of two rows side by side are what a register of an operand holds, so that they change places before
// they are widened.
template <typename To, typename T, int N, int Rows>
KGEN_DEVICE void widen_columns(const Vec<T, N> (&rows)[Rows], Vec<To, Rows> (&columns)[N]) {
  static_assert(sizeof(To) == 2, "a register holds two values");
  static_assert(N % 4 == 0 && Rows % 2 == 0, "codes are widened two rows and four columns at a time");
  struct Words {
    uint32_t at[N / 4];
  };
  struct Column {
    uint32_t pairs[Rows / 2];
  } made[N];
  KGEN_UNROLL
  for (int r = 0; r < Rows / 2; ++r) {
    const Words even = bits::cast<Words>(rows[2 * r]), odd = bits::cast<Words>(rows[2 * r + 1]);
    KGEN_UNROLL
    for (int w = 0; w < N / 4; ++w) {
      const auto first = bits::pairs_of<To, T>(bits::pick_bytes<0x5140>(even.at[w], odd.at[w]));
      const auto last = bits::pairs_of<To, T>(bits::pick_bytes<0x7362>(even.at[w], odd.at[w]));
      made[4 * w].pairs[r] = first[0];
      made[4 * w + 1].pairs[r] = first[1];
      made[4 * w + 2].pairs[r] = last[0];
      made[4 * w + 3].pairs[r] = last[1];
    }
  }
  KGEN_UNROLL
  for (int c = 0; c < N; ++c) columns[c] = bits::cast<Vec<To, Rows>>(made[c]);
}

struct Fit {
  float factor, back;
};

// `limit` is a power of 2. What is 0, or tiny, is moved no farther than factors reach.
KGEN_DEVICE Fit fit_under(float limit, float largest) {
  const int above = static_cast<int>(bits::cast<uint32_t>(largest) >> 23) - 126;  // largest < 2^above
  const int room = static_cast<int>(bits::cast<uint32_t>(limit) >> 23) - 127;
  const int moved = room - above < 126 ? room - above : 126;
  return {bits::power_of_two(moved), bits::power_of_two(-moved)};
}

template <typename T, int N>
KGEN_DEVICE float largest_finite(const Vec<T, N>& values) {
  float largest = 0.0f;
  KGEN_UNROLL
  for (int i = 0; i < N; ++i) {
    const float size = bits::cast<float>(bits::cast<uint32_t>(to_float(values[i])) & 0x7fffffffu);
    largest = max(largest, size < __builtin_huge_valf() ? size : 0.0f);
  }
  return largest;
}

template <int N>
KGEN_DEVICE Vec<float, N> to_float(const Vec<fp8_e4m3, N>& codes) {
  return widen<float>(codes);
}
template <int N>
KGEN_DEVICE Vec<float, N> to_float(const Vec<fp8_e5m2, N>& codes) {
  return widen<float>(codes);
}

}  // namespace kgen
