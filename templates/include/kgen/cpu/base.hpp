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

/// An index that is a constant.
template <int I>
struct Index {
  constexpr operator int() const { return I; }
};

/// f(Index<0>), ..., f(Index<N - 1>): a loop that is unrolled before anything looks at it, so that
/// an array it indexes becomes registers.
template <int N, class F>
KGEN_INLINE void unroll(const F& f) {
  if constexpr (N > 0) {
    unroll<N - 1>(f);
    f(Index<N - 1>{});
  }
}

}  // namespace kgen
