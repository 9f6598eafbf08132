// What every CPU kernel starts from. The headers of kgen/cpu keep to the small C headers: each
// variant is a compilation of its own, and <immintrin.h> or <algorithm> would be most of it.
#pragma once

#include <cstdint>
#include <cstring>

#define KGEN_EXPORT extern "C" __attribute__((visibility("default")))
#define KGEN_INLINE __attribute__((always_inline)) inline
#define KGEN_NOINLINE __attribute__((noinline))
#define KGEN_LAMBDA __attribute__((always_inline))

namespace kgen {

template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}

template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}

/// Of non-negative numbers, rounded up.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// A number as a type.
template <int N>
struct Constant {
  constexpr int operator()() const { return N; }
};

/// f(0), ..., f(N - 1): a loop that is unrolled before anything looks at it, so that an array it
/// indexes becomes registers.
template <int N, class F>
KGEN_INLINE void unroll(const F& f) {
  static_assert(N <= 8);
  if constexpr (N > 0) f(0);
  if constexpr (N > 1) f(1);
  if constexpr (N > 2) f(2);
  if constexpr (N > 3) f(3);
  if constexpr (N > 4) f(4);
  if constexpr (N > 5) f(5);
  if constexpr (N > 6) f(6);
  if constexpr (N > 7) f(7);
}

}  // namespace kgen
