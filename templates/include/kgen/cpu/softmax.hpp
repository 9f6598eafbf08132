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

/// What makes o the output: 1 / l, or 0 where there was nothing to attend to.
KGEN_INLINE float inverse(float m, float l) { return m == -kInfinity && l == 0.0f ? 0.0f : 1.0f / l; }

/// The natural-log LSE of a row.
inline float natural_lse(float m, float l) {
  return static_cast<float>(kLn2 * (static_cast<double>(m) + __builtin_log2(static_cast<double>(l))));
}

/// op over the lanes of each of R registers, as the first R lanes of one.
template <int R, class Op>
KGEN_INLINE Vec across(const Vec (&v)[R], Op op) {
  static_assert(R <= kLanes);
  alignas(kVecBytes) float lanes[kLanes] = {};
#pragma GCC unroll 4
  for (int r = 0; r < R; r += 4) {
    const Quad q = reduce(v[r], v[min(r + 1, R - 1)], v[min(r + 2, R - 1)], v[min(r + 3, R - 1)], op);
    std::memcpy(lanes + r, &q, sizeof q);
  }
  return load(lanes);
}

/// R floats and zeros.
template <int R>
KGEN_INLINE Vec load_rows(const float* p) {
  alignas(kVecBytes) float lanes[kLanes] = {};
  std::memcpy(lanes, p, R * sizeof(float));
  return load(lanes);
}

template <int R>
KGEN_INLINE void store_rows(float* p, Vec v) {
  alignas(kVecBytes) float lanes[kLanes];
  store(lanes, v);
  std::memcpy(p, lanes, R * sizeof(float));
}

/// Sets row[begin] .. row[end - 1].
KGEN_NOINLINE inline void fill(float* row, int begin, int end, float value) {
  for (int t = begin; t < end; ++t) row[t] = value;
}

/// Replaces the dot products of G rows by weights 2^(scale * dot - base) and adds them up.
template <int G, int Stride>
KGEN_INLINE void weigh(float* s, int padded, float scale, const float* bases, Vec* total) {
  constexpr int kStep = 2 * kLanes;
  unroll<G>([&](int r) KGEN_LAMBDA { total[r] = Vec{}; });
  for (int t = 0; t < padded; t += kStep) {
    Vec x[2 * G];
    unroll<2 * G>([&](int i) KGEN_LAMBDA {
      const Vec dots = load(s + i / 2 * Stride + t + i % 2 * kLanes);
      x[i] = fma(dots, broadcast(scale), -broadcast(bases[i / 2]));
    });
    exp2(x);
    unroll<2 * G>([&](int i) KGEN_LAMBDA {
      store(s + i / 2 * Stride + t + i % 2 * kLanes, x[i]);
      total[i / 2] = total[i / 2] + x[i];
    });
  }
}

/// Takes `count` > 0 more dot products of each of R rows into its m and l, and leaves in their place
/// the weights 2^(scale * dot - m), scale >= 0; shrink[r] is what the row's earlier o must be
/// multiplied with. A row of `s` is Stride floats; those past `count`, up to a multiple of two
/// registers, become 0.
template <int R, int Stride>
KGEN_INLINE void softmax_step(float* s, int count, float scale, float* m, float* l, float* shrink) {
  static_assert(Stride % (2 * kLanes) == 0);
  const int padded = static_cast<int>(ceil_div(count, 2 * kLanes)) * 2 * kLanes;
  if (count < padded) {
    for (int r = 0; r < R; ++r) fill(s + r * Stride, count, padded, s[r * Stride + count - 1]);
  }
  Vec most[R];
  unroll<R>([&](int r) KGEN_LAMBDA {
    most[r] = broadcast(-kInfinity);
    for (int t = 0; t < padded; t += kLanes) most[r] = larger(load(s + r * Stride + t), most[r]);
  });
  const Vec before = load_rows<R>(m);
  const Vec after = larger(across(most, Larger{}) * scale, before);
  const Vec base = after == -kInfinity ? Vec{} : after;
  Vec factors[1] = {before - base};
  exp2(factors);
  alignas(kVecBytes) float bases[kLanes];
  store(bases, base);

  Vec total[R];
  for (int r = 0; r + 2 <= R; r += 2) weigh<2, Stride>(s + r * Stride, padded, scale, bases + r, total + r);
  if constexpr (R % 2 == 1)
    weigh<1, Stride>(s + (R - 1) * Stride, padded, scale, bases + R - 1, total + R - 1);
  if (count < padded) {
    for (int r = 0; r < R; ++r) {
      fill(s + r * Stride, count, padded, 0.0f);
      total[r] = Vec{};
      for (int t = 0; t < padded; t += kLanes) total[r] = total[r] + load(s + r * Stride + t);
    }
  }
  store_rows<R>(m, after);
  store_rows<R>(l, fma(load_rows<R>(l), factors[0], across(total, Add{})));
  store_rows<R>(shrink, factors[0]);
}

}  // namespace kgen
