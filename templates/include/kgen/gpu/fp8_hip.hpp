// Codes on AMD from gfx942 on (fnuz), two at once, and on Hygon's gfx938 (OCP), one at a time. Where a
// compiler for the latter lacks its builtin, or KGEN_FP8_SOFTWARE is defined, and for e5m2, which is a half
// without its lower byte, codes are widened by integer operations.
#pragma once

#if defined(KGEN_FP8_FNUZ)

namespace kgen::bits {

typedef float float2 __attribute__((ext_vector_type(2)));

KGEN_DEVICE float2 float_pair(uint32_t codes, fp8_e4m3, bool upper) {
  return upper ? __builtin_amdgcn_cvt_pk_f32_fp8(static_cast<int>(codes), true)
               : __builtin_amdgcn_cvt_pk_f32_fp8(static_cast<int>(codes), false);
}
KGEN_DEVICE float2 float_pair(uint32_t codes, fp8_e5m2, bool upper) {
  return upper ? __builtin_amdgcn_cvt_pk_f32_bf8(static_cast<int>(codes), true)
               : __builtin_amdgcn_cvt_pk_f32_bf8(static_cast<int>(codes), false);
}

template <typename T>
KGEN_DEVICE Vec<float, 4> floats(uint32_t codes) {
  const float2 low = float_pair(codes, T{}, false);
  const float2 high = float_pair(codes, T{}, true);
  return {{low.x, low.y, high.x, high.y}};
}

template <typename T>
KGEN_DEVICE Vec<f16, 4> halves(uint32_t codes) {
  const float2 low = float_pair(codes, T{}, false);
  const float2 high = float_pair(codes, T{}, true);
  struct {
    uint32_t pairs[2];
  } words = {{cast<uint32_t>(__builtin_amdgcn_cvt_pkrtz(low.x, low.y)),  // exact
              cast<uint32_t>(__builtin_amdgcn_cvt_pkrtz(high.x, high.y))}};
  return cast<Vec<f16, 4>>(words);
}

}  // namespace kgen::bits

#else

#include "kgen/gpu/fp8_software.hpp"

#if !defined(KGEN_FP8_SOFTWARE) && __has_builtin(__builtin_hcu_cvt_f32_fp8)

namespace kgen::bits {

template <>
KGEN_DEVICE Vec<float, 4> floats<fp8_e4m3>(uint32_t codes) {
  const int word = static_cast<int>(codes);
  return {{__builtin_hcu_cvt_f32_fp8(word, false, 0, 0), __builtin_hcu_cvt_f32_fp8(word, false, 0, 1),
           __builtin_hcu_cvt_f32_fp8(word, false, 0, 2), __builtin_hcu_cvt_f32_fp8(word, false, 0, 3)}};
}

template <>
KGEN_DEVICE Vec<f16, 4> halves<fp8_e4m3>(uint32_t codes) {
  return from_float<f16>(floats<fp8_e4m3>(codes));
}

}  // namespace kgen::bits

#endif
#endif
