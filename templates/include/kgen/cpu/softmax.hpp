// The running softmax of attention, in base 2.
//
// A row's state over the tokens seen so far is its largest logit m, the sum l of 2^(logit - m),
// and o = the sum of 2^(logit - m) * v. Before any token m is -inf and l and o are 0, and every
// step below keeps that exact: no finite stand-in for -inf, nothing added to a denominator.
#pragma once

#include "kgen/cpu/exp2.hpp"

namespace kgen {

inline constexpr float kInfinity = __builtin_inff();

/// What to subtract from logits of which m is the largest: -inf - -inf would be NaN.
KGEN_INLINE float base_of(float m) { return m == -kInfinity ? 0.0f : m; }

/// The natural-log LSE of a row.
inline float natural_lse(float m, float l) {
  return static_cast<float>(kLn2 * (static_cast<double>(m) + __builtin_log2(static_cast<double>(l))));
}

/// Takes `count` > 0 more dot products of each of R rows into its m and l, and leaves in their
/// place the weights 2^(scale * dot - m); shrink[r] is what the row's earlier o must be multiplied
/// with. A row of `s` is Stride floats; those past `count`, up to a multiple of two registers, become 0.
template <int R, int Stride>
KGEN_INLINE void softmax_step(float* s, int count, float scale, float* m, float* l, float* shrink) {
  static_assert(R <= kLanes && Stride % (2 * kLanes) == 0);
  const int padded = (count + 2 * kLanes - 1) / (2 * kLanes) * (2 * kLanes);
  alignas(kVecBytes) float change[kLanes] = {};
  float base[R];
  for (int r = 0; r < R; ++r) {
    float* row = s + r * Stride;
    for (int t = count; t < padded; ++t) row[t] = row[count - 1];
    Vec most = broadcast(m[r]);
    for (int t = 0; t < padded; t += kLanes) {
      const Vec logits = load(row + t) * broadcast(scale);
      store(row + t, logits);
      most = larger(logits, most);
    }
    for (int t = count; t < padded; ++t) row[t] = -kInfinity;
    const float before = m[r];
    m[r] = largest(most);
    base[r] = base_of(m[r]);
    change[r] = before - base[r];
  }
  alignas(kVecBytes) float factors[kLanes];
  store(factors, exp2(load(change)));
  for (int r = 0; r < R; ++r) {
    float* row = s + r * Stride;
    Vec total = {};
    for (int t = 0; t < padded; t += kLanes) {
      const Vec weights = exp2(load(row + t) - broadcast(base[r]));
      store(row + t, weights);
      total = total + weights;
    }
    shrink[r] = factors[r];
    l[r] = l[r] * factors[r] + sum(total);
  }
}

}  // namespace kgen
