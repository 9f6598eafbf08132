// A row of a tensor in memory, read a register at a time.
#pragma once

#include "kgen/cpu/vec.hpp"

namespace kgen {

/// Elements in one register of T.
template <class T>
inline constexpr int kPerVec = kVecBytes / static_cast<int>(sizeof(T));

/// The first N elements at `p` in one register; the rest are 0 and their memory is not touched.
template <int N, class T>
KGEN_INLINE Words load_bits(const T* p) {
  constexpr int kBytes = N * static_cast<int>(sizeof(T));
  Words v{};
  if constexpr (kBytes >= kVecBytes) {
    std::memcpy(&v, p, kVecBytes);
  } else if constexpr (kBytes > 0) {
#if defined(KGEN_AVX512)
    v = reinterpret_cast<Words>(_mm512_maskz_loadu_epi16((uint32_t{1} << kBytes / 2) - 1, p));
#elif defined(KGEN_AVX2)
    if constexpr (kBytes == 16) {
      v = reinterpret_cast<Words>(
          _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    } else {
      std::memcpy(&v, p, kBytes);
    }
#else
    std::memcpy(&v, p, kBytes);
#endif
  }
  return v;
}

/// The row's elements lie W to a group with `stride` elements from group to group, or, where W is
/// 0, one after another.
template <class T, int W>
struct Row {
  const T* p;
  int64_t stride;

  KGEN_INLINE const T* at(int i) const {
    return W == 0 ? p + i : p + i / (W ? W : 1) * stride + i % (W ? W : 1);
  }

  /// Elements [first, first + N) in one register, 0 past them.
  template <int N>
  KGEN_INLINE Words bits(int first) const {
    constexpr int kPiece = 16 / sizeof(T);
    constexpr int kCount = N < kPerVec<T> ? N : kPerVec<T>;
    if constexpr (W == 0 || (W % kPerVec<T> == 0 && N >= kPerVec<T>)) {
      return load_bits<N>(at(first));
    } else if constexpr (W % kPiece == 0 && N >= kPerVec<T> && kVecBytes > 16) {
      return join([&](int i) { return at(first + i * kPiece); });
    } else {
      T elements[kPerVec<T>] = {};
      for (int i = 0; i < kCount; ++i) elements[i] = *at(first + i);
      return load_bits<kPerVec<T>>(elements);
    }
  }

 private:
  /// The 16-byte pieces at where(0), where(1), ... side by side.
  template <class Where>
  KGEN_INLINE static Words join(Where where) {
#if defined(KGEN_AVX512) || defined(KGEN_AVX2)
    const auto piece = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(where(i))); };
    const auto half = [&](int i) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(piece(i)), piece(i + 1), 1);
    };
#if defined(KGEN_AVX512)
    return reinterpret_cast<Words>(_mm512_inserti64x4(_mm512_castsi256_si512(half(0)), half(2), 1));
#else
    return reinterpret_cast<Words>(half(0));
#endif
#else
    return load_bits<kPerVec<T>>(where(0));
#endif
  }
};

}  // namespace kgen
