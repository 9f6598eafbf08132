// What every CPU kernel starts from. The headers of kgen/cpu keep to the small C headers: each
// variant is a compilation of its own, and <immintrin.h> or <algorithm> would be most of it.
#pragma once

#include <cstdint>
#include <cstring>

#define KGEN_EXPORT extern "C" __attribute__((visibility("default")))
#define KGEN_INLINE __attribute__((always_inline)) inline

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

}  // namespace kgen
