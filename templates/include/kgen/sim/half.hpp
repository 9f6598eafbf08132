// IEEE half precision in integer arithmetic, so that any host computes the same bits.
#pragma once

namespace kgen {

inline float to_float(f16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const uint32_t magnitude = value.bits & 0x7fff;
  if (magnitude < 0x0400) {  // zero and subnormal: a multiple of 2^-24
    const float small = static_cast<float>(magnitude) * 0x1p-24f;
    return bits::cast<float>(bits::cast<uint32_t>(small) | sign);
  }
  const uint32_t exponent = magnitude >= 0x7c00 ? 0x7f800000u - (0x7c00u << 13) : (127u - 15u) << 23;
  return bits::cast<float>(sign | ((magnitude << 13) + exponent));
}

template <>
inline f16 from_float<f16>(float value) {
  const uint32_t word = bits::cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(word >> 16 & 0x8000);
  const uint32_t magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (magnitude >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};  // rounds past 65504
  if (magnitude < 0x38800000) {  // under 2^-14: adding 0.5 leaves a multiple of 2^-24, rounded to even
    const float shifted = bits::cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (bits::cast<uint32_t>(shifted) - 0x3f000000))};
  }
  const uint32_t rounded = magnitude - ((127u - 15u) << 23) + 0xfff + (magnitude >> 13 & 1);
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

}  // namespace kgen
