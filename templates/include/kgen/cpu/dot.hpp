// The operand of a dot product along a row: what a block is multiplied with, and how.
#pragma once

#include "kgen/cpu/block.hpp"

namespace kgen {

/// Of rows of T with rows of KV. Dot<T, KV>::Operand holds a block of either, which `query` and `load` get
/// into the same lanes; accumulate(sum, a, b) adds a . b to the lanes of sum.
template <class T, class KV = T>
struct Dot {
  using Operand = Pair;
  static constexpr int kElements = kBlock;  // in an operand

  template <int N = kBlock, int W>
  KGEN_INLINE static Operand query(Row<T, W> row, int first) {
    if constexpr (same_lanes<T, KV>()) return Block<T>::template load<N>(row, first);
    float ordered[kBlock], all[kBlock];
    store_pair(ordered, Block<T>::template load_ordered<N>(row, first));
    for (int i = 0; i < kBlock; ++i) all[Block<KV>::lane(i)] = ordered[i];
    return load_pair(all);
  }

  template <int N = kBlock, int W>
  KGEN_INLINE static Operand load(Row<KV, W> row, int first) {
    return Block<KV>::template load<N>(row, first);
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
#define KGEN_DOTS_OF_BF16 1
/// vdpbf16ps multiplies pairs of bf16 and adds them in float: no widening. (Its intrinsic changes its
/// types from one compiler to the next.)
struct Bf16Dot {
  using Operand = Words;
  static constexpr int kElements = kBlock;

  template <int N = kBlock, int W>
  KGEN_INLINE static Operand query(Row<bf16, W> row, int first) {
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

template <>
struct Dot<bf16, bf16> : Bf16Dot {
  template <int N = kBlock, int W>
  KGEN_INLINE static Operand load(Row<bf16, W> row, int first) {
    return row.template bits<N>(first);
  }
};
#endif

}  // namespace kgen
