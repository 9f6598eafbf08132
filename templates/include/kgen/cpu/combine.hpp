// Merging partial results of attention, exactly.
#pragma once

#include "kgen/cpu/dtypes.hpp"
#include "kgen/cpu/softmax.hpp"

namespace kgen {

/// The result of attention over some of a row's tokens: the largest logit in base 2, the sum of
/// 2^(logit - m), and the normalised output. A part without tokens has m = -inf, l = 0, out = 0.
struct Part {
  float m, l;
  const float* out;
};

/// Merges parts part(0) .. part(count - 1) of a row into D outputs; returns the base-2 LSE.
template <int D, class Parts>
inline float combine(int64_t count, Parts part, float* out) {
  float m = -kInfinity;
  for (int64_t i = 0; i < count; ++i) m = part(i).m > m ? part(i).m : m;
  float total = 0.0f;
  float sums[D] = {};
  for (int64_t i = 0; i < count; ++i) {
    const Part p = part(i);
    if (p.m == -kInfinity && p.l == 0.0f) continue;
    const float weight = p.l * __builtin_exp2f(p.m - base_of(m));
    total += weight;
    for (int d = 0; d < D; ++d) sums[d] += weight * p.out[d];
  }
  const float scale = inverse(m, total);
  for (int d = 0; d < D; ++d) out[d] = sums[d] * scale;
  return m + __builtin_log2f(total);
}

/// Rounds `count` floats to T.
template <class T>
inline void convert(const float* from, int count, T* to) {
  for (int i = 0; i < count; ++i) to[i] = from_float<T>(from[i]);
}

}  // namespace kgen
