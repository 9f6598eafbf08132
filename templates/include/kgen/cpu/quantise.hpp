// Floats to 8-bit floats: a quotient with the scale, to nearest, ties to even, and never beyond the largest.
#pragma once

#include "kgen/cpu/fp8.hpp"

namespace kgen {

/// The codes of a register of quotients, a word each. NaN gives the one NaN without a sign; infinities give
/// the largest finite value.
template <class T>
KGEN_INLINE Words codes_of(Vec x) {
  constexpr int kShift = Fp8<T>::kShift, kMantissa = 23 - kShift, kBias = Fp8<T>::kBias;
  constexpr uint32_t kLowest = uint32_t{127 - kBias}
                               << kMantissa;  // a float's exponent, less this, is a code's
  const Words bits = as_words(x);
  const Vec largest = as_floats(Words{} + ((Fp8<T>::kMost + kLowest) << kShift));
  const Vec size = as_floats(bits & 0x7fffffffu);
  const Words magnitude = as_words(size < largest ? size : largest);
  const Words normal =
      ((magnitude + ((1u << (kShift - 1)) - 1) + (magnitude >> kShift & 1u)) >> kShift) - kLowest;
  // Below the smallest normal value codes are steps of one size: let the float adder round to it.
  const Vec step = broadcast(power_of_two(24 - kMantissa - kBias));
  const Words small = as_words(as_floats(magnitude) + step) - as_words(step);
  const Words code = magnitude < (kLowest + (1u << kMantissa)) << kShift ? small : normal;
  return x == x ? code | (bits >> 24 & 0x80u) : Words{} + Fp8<T>::kNan;
}

/// N elements of T, divided by `scale`, as codes of KV in order.
template <int N, class T, class KV>
void quantise(const T* from, float scale, KV* to) {
  using Bytes = uint8_t __attribute__((vector_size(kLanes)));
  const Vec divisor = broadcast(scale);
  const auto block = [&](auto count, int first) KGEN_LAMBDA {
    const Pair pair = Block<T>::template load_ordered<count()>(Row<T, 0>{from, 0}, first);
    const Bytes codes[2] = {__builtin_convertvector(codes_of<KV>(pair.lo / divisor), Bytes),
                            __builtin_convertvector(codes_of<KV>(pair.hi / divisor), Bytes)};
    std::memcpy(to + first, codes, count());
  };
  for (int d = 0; d + kBlock <= N; d += kBlock) block(Constant<kBlock>{}, d);
  if constexpr (N % kBlock > 0) block(Constant<N % kBlock>{}, N / kBlock * kBlock);
}

}  // namespace kgen
