// What printed expressions call: integer arithmetic that rounds down, and the functions of the
// language. A rendered source that calls one includes this by itself.
#pragma once

#if defined(__CUDACC__)
#define KGEN_MATH __host__ __device__ inline
#elif defined(__HIP__)
#define KGEN_MATH __attribute__((host, device)) inline
#else
#define KGEN_MATH inline
#endif
#define KGEN_ARITH KGEN_MATH constexpr

#include <stdint.h>

namespace kgen::expr {

// a / b rounded toward minus infinity; b must not be 0.
KGEN_ARITH int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

// What floor_div leaves: has the sign of b.
KGEN_ARITH int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// a / b rounded toward plus infinity; b must not be 0.
KGEN_ARITH int64_t ceil_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q + (a % b != 0 && (a < 0) == (b < 0));
}

// The smallest multiple of unit that is not below a.
KGEN_ARITH int64_t align_up(int64_t a, int64_t unit) { return ceil_div(a, unit) * unit; }

template <class A, class B>
KGEN_ARITH auto min(A a, B b) -> decltype(a + b) {
  return b < a ? b : a;
}

template <class A, class B>
KGEN_ARITH auto max(A a, B b) -> decltype(a + b) {
  return b > a ? b : a;
}

template <class A>
KGEN_ARITH A abs(A a) {
  return a < 0 ? -a : a;
}

KGEN_MATH int64_t floor_int(double a) { return static_cast<int64_t>(__builtin_floor(a)); }
KGEN_MATH int64_t ceil_int(double a) { return static_cast<int64_t>(__builtin_ceil(a)); }

// 2^a for 0 <= a < 64, within 2 units in the last place.
KGEN_MATH float exp2_part(float a) {
  union Bits {
    float real;
    int32_t word;
  };
  const float rounder = 0x1.8p23f;
  Bits shifted = {a + rounder};
  const float f = a - (shifted.real - rounder);  // in [-0.5, 0.5]
  Bits whole = {rounder};
  whole.word = (shifted.word - whole.word + 127) << 23;
  float p = 0x1.5bba14p-10f;
  p = p * f + 0x1.3cea88p-7f;
  p = p * f + 0x1.c6b752p-5f;
  p = p * f + 0x1.ebf9bcp-3f;
  p = p * f + 0x1.62e42ap-1f;
  p = p * f + 1.0f;
  return p * whole.real;
}

// Of a float in float, of all else in double.
#define KGEN_REAL(name)                              \
  template <class A>                                 \
  KGEN_MATH double name(A a) {                       \
    return __builtin_##name(static_cast<double>(a)); \
  }
KGEN_REAL(sqrt)
KGEN_REAL(exp)
KGEN_REAL(exp2)
KGEN_REAL(log)
KGEN_REAL(log2)
KGEN_REAL(tanh)
#undef KGEN_REAL

KGEN_MATH float sqrt(float a) { return __builtin_sqrtf(a); }
KGEN_MATH float exp(float a) { return __builtin_expf(a); }
KGEN_MATH float exp2(float a) { return __builtin_exp2f(a); }
KGEN_MATH float log(float a) { return __builtin_logf(a); }
KGEN_MATH float log2(float a) { return __builtin_log2f(a); }

// Without branches and calls, so that a loop over it becomes vectors; not every target has one of its own.
KGEN_MATH float tanh(float a) {
  const float size = a < 0.0f ? -a : a;
  const float square = a * a;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float small = p * square * size + size;
  const float most = size < 10.0f ? size : 10.0f;  // where the result is 1
  const float large = 1.0f - 2.0f / (exp2_part(most * 2.885390081777927f) + 1.0f);
  const float result = size < 0.625f ? small : large;
  return a < 0.0f ? -result : a != a ? a : result;
}

}  // namespace kgen::expr
