// 2^x for the softmax, where x <= 0.
#pragma once

#include "kgen/cpu/vec.hpp"

namespace kgen {

inline constexpr double kLog2e = 1.4426950408889634074;
inline constexpr double kLn2 = 0.69314718055994530942;

/// Replaces each x by 2^x for x < 128, within 2 units in the last place; exactly 0 below 2^-127, so
/// at -inf; NaN at NaN. Several registers go through together, to hide the latency of the steps.
template <int N>
KGEN_INLINE void exp2(Vec (&x)[N]) {
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits, here with the bias of
  // the exponent already in. Clamped, the smallest exponent field is 0, which is the number 0.
  const Vec shift = broadcast(0x1.8p23f + 127.0f);
  Vec power[N], p[N];
  unroll<N>([&](int i) KGEN_LAMBDA { x[i] = larger(broadcast(-127.0f), x[i]); });
  unroll<N>([&](int i) KGEN_LAMBDA { power[i] = x[i] + shift; });
  unroll<N>([&](int i) KGEN_LAMBDA { x[i] = x[i] - (power[i] - shift); });  // in [-0.5, 0.5]
  unroll<N>([&](int i) KGEN_LAMBDA { power[i] = as_floats(as_words(power[i]) << 23); });
  // minimax of 2^f - 1 over f with the relative error below 1e-7
  unroll<N>([&](auto i)
                KGEN_LAMBDA { p[i] = fma(broadcast(0x1.5bba14p-10f), x[i], broadcast(0x1.3cea88p-7f)); });
  unroll<N>([&](int i) KGEN_LAMBDA { p[i] = fma(p[i], x[i], broadcast(0x1.c6b752p-5f)); });
  unroll<N>([&](int i) KGEN_LAMBDA { p[i] = fma(p[i], x[i], broadcast(0x1.ebf9bcp-3f)); });
  unroll<N>([&](int i) KGEN_LAMBDA { p[i] = fma(p[i], x[i], broadcast(0x1.62e42ap-1f)); });
  unroll<N>([&](int i) KGEN_LAMBDA { p[i] = fma(p[i], x[i], broadcast(1.0f)); });
  unroll<N>([&](int i) KGEN_LAMBDA { x[i] = p[i] * power[i]; });
}

}  // namespace kgen
