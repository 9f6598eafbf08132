// 2^x for the softmax, where x <= 0.
#pragma once

#include "kgen/cpu/vec.hpp"

namespace kgen {

inline constexpr double kLog2e = 1.4426950408889634074;
inline constexpr double kLn2 = 0.69314718055994530942;

/// 2^x for x < 128, within 2 units in the last place; exactly 0 below 2^-127, so at -inf; NaN at NaN.
KGEN_INLINE Vec exp2(Vec x) {
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits, here with the bias of
  // the exponent already in. Clamped, the smallest exponent field is 0, which is the number 0.
  const Vec shift = broadcast(0x1.8p23f + 127.0f);
  x = larger(broadcast(-127.0f), x);
  const Vec shifted = x + shift;
  const Vec f = x - (shifted - shift);  // in [-0.5, 0.5]
  // minimax of 2^f - 1 over f with the relative error below 1e-7
  Vec p = broadcast(0x1.5bba14p-10f);
  p = fma(p, f, broadcast(0x1.3cea88p-7f));
  p = fma(p, f, broadcast(0x1.c6b752p-5f));
  p = fma(p, f, broadcast(0x1.ebf9bcp-3f));
  p = fma(p, f, broadcast(0x1.62e42ap-1f));
  p = fma(p, f, broadcast(1.0f));
  return p * as_floats(as_words(shifted) << 23);
}

}  // namespace kgen
