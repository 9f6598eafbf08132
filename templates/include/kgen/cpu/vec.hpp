// One register of floats, as wide as the target's flags allow.
//
// GCC and Clang give vector types + - * and comparisons; the functions below are the rest. The
// instruction set is what the target's flags say, never what the building machine happens to be.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define KGEN_AVX512 1
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define KGEN_AVX2 1
#include <immintrin.h>
#endif

#define KGEN_INLINE __attribute__((always_inline)) inline

namespace kgen {

#if defined(KGEN_AVX512)
inline constexpr int kLanes = 16;
inline constexpr int kRegisters = 32;
using Vec = __m512;
#elif defined(KGEN_AVX2)
inline constexpr int kLanes = 8;
inline constexpr int kRegisters = 16;
using Vec = __m256;
#else
inline constexpr int kLanes = 4;
inline constexpr int kRegisters = 16;
using Vec = float __attribute__((vector_size(16)));
#endif

inline constexpr int kVecBytes = kLanes * 4;

/// The bits of a register: one 32-bit word a lane.
using Words = uint32_t __attribute__((vector_size(kVecBytes)));

KGEN_INLINE Vec as_floats(Words w) { return reinterpret_cast<Vec>(w); }

KGEN_INLINE Words as_words(Vec v) { return reinterpret_cast<Words>(v); }

KGEN_INLINE Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

KGEN_INLINE void store(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

KGEN_INLINE Vec broadcast(float x) {
#if defined(KGEN_AVX512)
  return _mm512_set1_ps(x);
#elif defined(KGEN_AVX2)
  return _mm256_set1_ps(x);
#else
  return Vec{x, x, x, x};
#endif
}

KGEN_INLINE Vec zero() { return Vec{}; }

/// a * b + c
KGEN_INLINE Vec fma(Vec a, Vec b, Vec c) {
#if defined(KGEN_AVX512)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(KGEN_AVX2)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

/// The larger of each lane; the lane of `b` where either is NaN.
KGEN_INLINE Vec max(Vec a, Vec b) {
#if defined(KGEN_AVX512)
  return _mm512_max_ps(a, b);
#elif defined(KGEN_AVX2)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

KGEN_INLINE float sum(Vec v) {
#if defined(KGEN_AVX512)
  return _mm512_reduce_add_ps(v);
#elif defined(KGEN_AVX2)
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
#else
  return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

/// The largest lane. A NaN lane may be passed over.
KGEN_INLINE float largest(Vec v) {
#if defined(KGEN_AVX512)
  return _mm512_reduce_max_ps(v);
#elif defined(KGEN_AVX2)
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
#else
  const float even = v[0] > v[2] ? v[0] : v[2];
  const float odd = v[1] > v[3] ? v[1] : v[3];
  return even > odd ? even : odd;
#endif
}

/// The lane sums of four registers: {sum(a), sum(b)} to lo, {sum(c), sum(d)} to hi.
KGEN_INLINE void store_sums(Vec a, Vec b, Vec c, Vec d, float* lo, float* hi) {
#if defined(KGEN_AVX512) || defined(KGEN_AVX2)
#if defined(KGEN_AVX512)
  // a0+a2 a1+a3 b2+b0 b3+b1 in every quarter; blends leave the shuffle port to the rest
  const __m512 ab = _mm512_mask_blend_ps(0xcccc, a, b) + _mm512_shuffle_ps(a, b, 0x4e);
  const __m512 cd = _mm512_mask_blend_ps(0xcccc, c, d) + _mm512_shuffle_ps(c, d, 0x4e);
  const __m512 wide = _mm512_shuffle_ps(ab, cd, 0x88) + _mm512_shuffle_ps(ab, cd, 0xdd);
  const __m256 quads = _mm512_castps512_ps256(wide) + _mm512_extractf32x8_ps(wide, 1);
#else
  const __m256 ab = _mm256_blend_ps(a, b, 0xcc) + _mm256_shuffle_ps(a, b, 0x4e);
  const __m256 cd = _mm256_blend_ps(c, d, 0xcc) + _mm256_shuffle_ps(c, d, 0x4e);
  const __m256 quads = _mm256_shuffle_ps(ab, cd, 0x88) + _mm256_shuffle_ps(ab, cd, 0xdd);
#endif
  const __m128 sums = _mm256_castps256_ps128(quads) + _mm256_extractf128_ps(quads, 1);
  _mm_storel_pi(reinterpret_cast<__m64*>(lo), sums);
  _mm_storeh_pi(reinterpret_cast<__m64*>(hi), sums);
#else
  lo[0] = sum(a);
  lo[1] = sum(b);
  hi[0] = sum(c);
  hi[1] = sum(d);
#endif
}

/// Asks for the cache line of `p`, which need not be readable.
KGEN_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }

}  // namespace kgen
