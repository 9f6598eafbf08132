// Four codes of a word by integer operations, for chips that do not convert, and in the simulator.
//
// A code of the OCP goes into a half as it is, its exponent and mantissa side by side: e5m2 is a half without
// the lower byte; e4m3 is moved down by one bit below its sign, which makes it 2^-8 of its value, and NaN,
// the code past the largest, is given the largest exponent. The flavour fnuz is read from its definition.
#pragma once

namespace kgen::bits {

// Two halves times a power of 2, exactly.
#if defined(__CUDACC__)
KGEN_DEVICE uint32_t scale_halves(uint32_t pair, float factor) {
  const uint32_t factors = cast<uint32_t>(from_floats<f16>(factor, factor));
  uint32_t scaled;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(scaled) : "r"(pair), "r"(factors));
  return scaled;
}
#elif defined(__HIP__)
KGEN_DEVICE uint32_t scale_halves(uint32_t pair, float factor) {
  typedef _Float16 half2 __attribute__((ext_vector_type(2)));
  return cast<uint32_t>(cast<half2>(pair) * static_cast<_Float16>(factor));
}
#else
KGEN_DEVICE uint32_t scale_halves(uint32_t pair, float factor) {
  return cast<uint32_t>(from_float<f16>(scaled(to_float(cast<Vec<f16, 2>>(pair)), factor)));
}
#endif

// Codes 2 i and 2 i + 1 of a word in the upper bytes of two halves.
KGEN_DEVICE uint32_t spread(uint32_t codes, int i) {
  return i == 0 ? pick_bytes<0x1404>(codes, 0) : pick_bytes<0x3424>(codes, 0);
}

// 2^-8 of two e4m3 of the OCP.
KGEN_DEVICE uint32_t place_e4m3(uint32_t spread) {
  const uint32_t placed = (spread & 0x80008000u) | (spread >> 1 & 0x3f803f80u);
  const uint32_t past = (placed + 0x00800080u) & 0x40004000u;  // set for NaN alone
  return placed | past;
}

template <typename T>
struct Software {
  // The halves of two codes, up to a power of 2.
  KGEN_DEVICE static uint32_t place(uint32_t spread) { return spread; }
  static constexpr float kFactor = 1.0f;
};
template <>
struct Software<fp8_e4m3> {
  KGEN_DEVICE static uint32_t place(uint32_t spread) { return place_e4m3(spread); }
  static constexpr float kFactor = 256.0f;
};

template <typename T>
KGEN_DEVICE Vec<float, 4> defined_floats(uint32_t codes) {
  Vec<float, 4> values;
  for (int i = 0; i < 4; ++i) values[i] = fp8_value<T>(static_cast<uint8_t>(codes >> (8 * i)));
  return values;
}

template <typename T>
KGEN_DEVICE Vec<f16, 4> halves(uint32_t codes) {
  if (kFnuz) return from_float<f16>(defined_floats<T>(codes));
  struct Pairs {
    uint32_t at[2];
  } pairs;
  KGEN_UNROLL
  for (int i = 0; i < 2; ++i) {
    pairs.at[i] = Software<T>::place(spread(codes, i));
    if (Software<T>::kFactor != 1.0f) pairs.at[i] = scale_halves(pairs.at[i], Software<T>::kFactor);
  }
  return cast<Vec<f16, 4>>(pairs);
}

template <typename T>
KGEN_DEVICE Vec<float, 4> floats(uint32_t codes) {
  return kFnuz ? defined_floats<T>(codes) : to_float(halves<T>(codes));
}

}  // namespace kgen::bits
