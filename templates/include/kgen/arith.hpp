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

// Of a float in float, of all else in double.
#define KGEN_REAL(name)                                            \
  KGEN_MATH float name(float a) { return __builtin_##name##f(a); } \
  template <class A>                                               \
  KGEN_MATH double name(A a) {                                     \
    return __builtin_##name(static_cast<double>(a));               \
  }
KGEN_REAL(sqrt)
KGEN_REAL(exp)
KGEN_REAL(exp2)
KGEN_REAL(log)
KGEN_REAL(log2)
KGEN_REAL(tanh)
#undef KGEN_REAL

}  // namespace kgen::expr
