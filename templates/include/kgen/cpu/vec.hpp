// One register of floats, as wide as the target's flags allow.
//
// Written with the vector extensions of GCC (12 and later) and Clang, which turn each of these into
// the instruction one would name: + - * compare and ?: work on vectors as they are.
#pragma once

#include "kgen/cpu/base.hpp"

// KGEN_LANES may be given, to try the code of a wide target on a narrow host; then no instruction
// is named at all.
#if defined(KGEN_LANES)
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define KGEN_AVX512 1
#define KGEN_LANES 16
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define KGEN_AVX2 1
#define KGEN_LANES 8
#else
#define KGEN_LANES 4
#endif

namespace kgen {

inline constexpr int kLanes = KGEN_LANES;  // 4, 8 or 16
inline constexpr int kRegisters = kLanes == 16 ? 32 : 16;
inline constexpr int kVecBytes = kLanes * 4;

using Vec = float __attribute__((vector_size(kVecBytes)));
using Words = uint32_t __attribute__((vector_size(kVecBytes)));  // the bits of a register, a word a lane
using Quad = float __attribute__((vector_size(16)));

KGEN_INLINE Vec as_floats(Words w) { return reinterpret_cast<Vec>(w); }

KGEN_INLINE Words as_words(Vec v) { return reinterpret_cast<Words>(v); }

KGEN_INLINE Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

KGEN_INLINE void store(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

KGEN_INLINE Vec broadcast(float x) { return x - Vec{}; }

/// a * b + c in one instruction where the target has it (the compiler is told to contract).
KGEN_INLINE Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }

/// sum += a * b, in place: GCC's allocator would let the sums of a tile wander from register to
/// register, and spill them.
KGEN_INLINE void add_product(Vec& sum, Vec a, Vec b) {
#if (defined(KGEN_AVX512) || defined(KGEN_AVX2)) && !defined(__clang__)
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
  sum = fma(a, b, sum);
#endif
}

/// The larger of each lane; the lane of `b` where either is NaN.
KGEN_INLINE Vec larger(Vec a, Vec b) {
#if (defined(KGEN_AVX512) || defined(KGEN_AVX2)) && !defined(__clang__)
  asm("" : "+v"(a));  // GCC makes a compare and a blend of a maximum with a constant
#endif
  return a > b ? a : b;
}

/// Of four registers, {op over a quarter's lanes of a, of b, of c, of d} in every quarter of a register.
template <class Op>
KGEN_INLINE Vec reduce_quarters(Vec a, Vec b, Vec c, Vec d, Op op) {
  // In every quarter of a register: a0a2 a1a3 b0b2 b1b3, then a b c d.
#if KGEN_LANES == 16
#define KGEN_MIX(x, y, i, j, k, l)                                                                        \
  __builtin_shufflevector(x, y, i, j, k + 16, l + 16, i + 4, j + 4, k + 20, l + 20, i + 8, j + 8, k + 24, \
                          l + 24, i + 12, j + 12, k + 28, l + 28)
#elif KGEN_LANES == 8
#define KGEN_MIX(x, y, i, j, k, l) \
  __builtin_shufflevector(x, y, i, j, k + 8, l + 8, i + 4, j + 4, k + 12, l + 12)
#else
#define KGEN_MIX(x, y, i, j, k, l) __builtin_shufflevector(x, y, i, j, k + 4, l + 4)
#endif
  const Vec ab = op(KGEN_MIX(a, b, 0, 1, 0, 1), KGEN_MIX(a, b, 2, 3, 2, 3));
  const Vec cd = op(KGEN_MIX(c, d, 0, 1, 0, 1), KGEN_MIX(c, d, 2, 3, 2, 3));
  return op(KGEN_MIX(ab, cd, 0, 2, 0, 2), KGEN_MIX(ab, cd, 1, 3, 1, 3));
#undef KGEN_MIX
}

/// Of four registers, {op over the lanes of a, of b, of c, of d}.
template <class Op>
KGEN_INLINE Quad reduce(Vec a, Vec b, Vec c, Vec d, Op op) {
  const Vec abcd = reduce_quarters(a, b, c, d, op);
  Quad quarter[kLanes / 4];
  std::memcpy(quarter, &abcd, sizeof abcd);
#if KGEN_LANES == 16
  return op(op(quarter[0], quarter[1]), op(quarter[2], quarter[3]));
#elif KGEN_LANES == 8
  return op(quarter[0], quarter[1]);
#else
  return quarter[0];
#endif
}

#if KGEN_LANES == 16
/// Of four registers, {op over the quarters of a, of b, of c, of d}.
template <class Op>
KGEN_INLINE Vec join_quarters(Vec a, Vec b, Vec c, Vec d, Op op) {
#define KGEN_MIX(x, y, i, j)                                                                                 \
  __builtin_shufflevector(x, y, 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * j, 4 * j + 1, 4 * j + 2,         \
                          4 * j + 3, 4 * i + 16, 4 * i + 17, 4 * i + 18, 4 * i + 19, 4 * j + 16, 4 * j + 17, \
                          4 * j + 18, 4 * j + 19)
  const Vec ab = op(KGEN_MIX(a, b, 0, 2), KGEN_MIX(a, b, 1, 3));
  const Vec cd = op(KGEN_MIX(c, d, 0, 2), KGEN_MIX(c, d, 1, 3));
  return op(KGEN_MIX(ab, cd, 0, 2), KGEN_MIX(ab, cd, 1, 3));
#undef KGEN_MIX
}
#endif

struct Add {
  template <class V>
  KGEN_INLINE V operator()(V a, V b) const {
    return a + b;
  }
};

/// No lane may be NaN.
struct Larger {
  template <class V>
  KGEN_INLINE V operator()(V a, V b) const {
    return a > b ? a : b;
  }
};

/// Asks for the cache line of `p`, which need not be readable.
KGEN_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }

}  // namespace kgen
