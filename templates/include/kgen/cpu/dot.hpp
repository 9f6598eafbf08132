// The operand of a dot product along a row: what a block is multiplied with, and how.
#pragma once

#include "kgen/cpu/block.hpp"

namespace kgen {

/// Dot<T>::Operand holds a block; accumulate(sum, a, b) adds a . b to the lanes of sum.
template <class T>
struct Dot {
  using Operand = Pair;

  template <int N = kBlock, int W>
  KGEN_INLINE static Operand load(Row<T, W> row, int first) {
    return Block<T>::template load<N>(row, first);
  }

  KGEN_INLINE static Operand negated(Operand a) { return {-a.lo, -a.hi}; }

  /// A stored operand, into registers.
  KGEN_INLINE static Operand stored(const Operand* p) { return load_pair(reinterpret_cast<const float*>(p)); }

  KGEN_INLINE static void accumulate(Vec& sum, Operand a, Operand b) {
    add_product(sum, a.lo, b.lo);
    add_product(sum, a.hi, b.hi);
  }
};

// KGEN_BF16_DOTS may be given to try this form on a host without the instruction.
#if (defined(KGEN_AVX512) && defined(__AVX512BF16__)) || defined(KGEN_BF16_DOTS)
/// vdpbf16ps multiplies pairs of bf16 and adds them in float: no widening. (Its intrinsic changes its
/// types from one compiler to the next.)
template <>
struct Dot<bf16> {
  using Operand = Words;

  template <int N = kBlock, int W>
  KGEN_INLINE static Operand load(Row<bf16, W> row, int first) {
    return row.template bits<N>(first);
  }

  KGEN_INLINE static Operand negated(Operand a) { return a ^ 0x80008000u; }

  KGEN_INLINE static Operand stored(const Operand* p) { return *p; }

  KGEN_INLINE static void accumulate(Vec& sum, Operand a, Operand b) {
#if !defined(KGEN_BF16_DOTS)
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
    sum += as_floats(a << 16) * as_floats(b << 16) + as_floats(a & 0xffff0000u) * as_floats(b & 0xffff0000u);
#endif
  }
};
#endif

}  // namespace kgen
