// The operand of a dot product along a row: what a block is multiplied with, and how.
#pragma once

#include "kgen/cpu/block.hpp"

namespace kgen {

/// Dot<T>::Operand holds a block; accumulate(acc, a, b) adds a . b to the lanes of acc.
template <class T>
struct Dot {
  using Operand = Pair;

  template <int N = kBlock, int W>
  KGEN_INLINE static Operand load(Row<T, W> row, int first) {
    return Block<T>::template load<N>(row, first);
  }

  KGEN_INLINE static Vec accumulate(Vec acc, Operand a, Operand b) {
    return fma(a.hi, b.hi, fma(a.lo, b.lo, acc));
  }
};

#if defined(KGEN_AVX512) && defined(__AVX512BF16__)
/// vdpbf16ps multiplies pairs of bf16 and adds them in float: no widening. (Its intrinsic changes its
/// types from one compiler to the next.)
template <>
struct Dot<bf16> {
  using Operand = Words;

  template <int N = kBlock, int W>
  KGEN_INLINE static Operand load(Row<bf16, W> row, int first) {
    return row.template bits<N>(first);
  }

  KGEN_INLINE static Vec accumulate(Vec acc, Operand a, Operand b) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
  }
};
#endif

}  // namespace kgen
