// Storage types of tensors. Arithmetic is always done in float.
#pragma once

#include "kgen/cpu/base.hpp"

namespace kgen {

struct bf16 {
  uint16_t bits;
};

struct f16 {
  uint16_t bits;
};

inline uint32_t float_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline float bits_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline float to_float(float x) { return x; }

inline float to_float(bf16 x) { return bits_float(uint32_t{x.bits} << 16); }

inline float to_float(f16 x) {
  const uint32_t magnitude = uint32_t{x.bits & 0x7fffu} << 13;
  // 2^112 moves the exponent from bias 15 to bias 127, subnormals included.
  uint32_t bits = float_bits(bits_float(magnitude) * 0x1p112f);
  if (magnitude >= 0x0f800000u) bits |= 0x7f800000u;  // infinity and NaN
  return bits_float(bits | uint32_t{x.bits & 0x8000u} << 16);
}

template <class T>
T from_float(float x);

template <>
inline float from_float<float>(float x) {
  return x;
}

/// Rounds to nearest even; NaN stays a (quiet) NaN.
template <>
inline bf16 from_float<bf16>(float x) {
  const uint32_t bits = float_bits(x);
  if (x != x) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

/// Rounds to nearest even; overflows to infinity; NaN stays a (quiet) NaN.
template <>
inline f16 from_float<f16>(float x) {
  const uint32_t bits = float_bits(x);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: let the float adder round at 2^-24
    half = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}

}  // namespace kgen
