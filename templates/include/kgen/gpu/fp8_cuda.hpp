// Codes of the OCP on NVIDIA from sm_89 on: the chip widens two to halves, and rounds two floats.
#pragma once

namespace kgen {

namespace bits {

template <typename T>
KGEN_DEVICE uint32_t half_pair(uint16_t codes);

#define KGEN_FP8_PAIR(T, name)                                                         \
  template <>                                                                          \
  KGEN_DEVICE uint32_t half_pair<T>(uint16_t codes) {                                  \
    uint32_t pair;                                                                     \
    asm("cvt.rn.f16x2." name "x2 %0, %1;" : "=r"(pair) : "h"(codes));                  \
    return pair;                                                                       \
  }                                                                                    \
  KGEN_DEVICE Vec<T, 2> code_pair(float a, float b, T) {                               \
    uint16_t codes;                                                                    \
    asm("cvt.rn.satfinite." name "x2.f32 %0, %2, %1;" : "=h"(codes) : "f"(a), "f"(b)); \
    return cast<Vec<T, 2>>(codes);                                                     \
  }
KGEN_FP8_PAIR(fp8_e4m3, "e4m3")
KGEN_FP8_PAIR(fp8_e5m2, "e5m2")
#undef KGEN_FP8_PAIR

template <typename T>
KGEN_DEVICE Vec<f16, 4> halves(uint32_t codes) {
  uint16_t low, high;
  asm("mov.b32 {%0, %1}, %2;" : "=h"(low), "=h"(high) : "r"(codes));  // a shift would be an instruction more
  const uint2 pairs = make_uint2(half_pair<T>(low), half_pair<T>(high));
  return cast<Vec<f16, 4>>(pairs);
}

template <typename T>
KGEN_DEVICE Vec<float, 4> floats(uint32_t codes) {
  const Vec<f16, 4> narrow = halves<T>(codes);
  Vec<float, 4> values;
  KGEN_UNROLL
  for (int i = 0; i < 4; ++i) values[i] = to_float(narrow[i]);
  return values;
}

}  // namespace bits

template <>
KGEN_DEVICE Vec<fp8_e4m3, 2> from_floats<fp8_e4m3>(float a, float b) {
  return bits::code_pair(a, b, fp8_e4m3{});
}
template <>
KGEN_DEVICE Vec<fp8_e5m2, 2> from_floats<fp8_e5m2>(float a, float b) {
  return bits::code_pair(a, b, fp8_e5m2{});
}

}  // namespace kgen
