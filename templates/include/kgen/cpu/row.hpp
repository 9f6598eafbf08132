// A row of a tensor in memory, read a register at a time.
#pragma once

#include "kgen/cpu/vec.hpp"

namespace kgen {

/// Elements in one register of T.
template <class T>
inline constexpr int kPerVec = kVecBytes / static_cast<int>(sizeof(T));

/// Up to four 16-byte pieces side by side in one register, the rest of which is 0.
template <int Count, class At>
KGEN_INLINE Words join_pieces(At at) {
  using Piece = uint32_t __attribute__((vector_size(16)));
  Piece piece[4] = {};
#pragma GCC unroll 4
  for (int i = 0; i < Count; ++i) std::memcpy(&piece[i], at(i), 16);
#if KGEN_LANES == 16
  const auto low = __builtin_shufflevector(piece[0], piece[1], 0, 1, 2, 3, 4, 5, 6, 7);
  const auto high = __builtin_shufflevector(piece[2], piece[3], 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif KGEN_LANES == 8
  return __builtin_shufflevector(piece[0], piece[1], 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return piece[0];
#endif
}

/// The first N elements at `p` in one register; the rest are 0 and their memory is not touched.
template <int N, class T>
KGEN_INLINE Words load_bits(const T* p) {
  constexpr int kBytes = min(N * static_cast<int>(sizeof(T)), kVecBytes);
  Words words{};
  if constexpr (kBytes > 0 && kBytes < kVecBytes && kBytes % 16 == 0) {
    words = join_pieces<kBytes / 16>([&](int i) { return p + i * 16 / static_cast<int>(sizeof(T)); });
  } else if constexpr (kBytes > 0) {
    std::memcpy(&words, p, kBytes);
  }
  return words;
}

/// The row's elements lie W to a group with `stride` elements from group to group, or, where W is
/// 0, one after another.
template <class T, int W>
struct Row {
  const T* p;
  int64_t stride;

  KGEN_INLINE const T* at(int i) const {
    if constexpr (W == 0) return p + i;
    return p + i / (W ? W : 1) * stride + i % (W ? W : 1);
  }

  /// Elements [first, first + N) in one register, 0 past them.
  template <int N>
  KGEN_INLINE Words bits(int first) const {
    constexpr int kCount = min(N, kPerVec<T>);
    constexpr int kPiece = 16 / static_cast<int>(sizeof(T));
    if constexpr (W == 0) {
      return load_bits<N>(p + first);
    } else if constexpr (W % kPiece == 0 && kCount % kPiece == 0 && kCount > 0) {
      return join_pieces<kCount / kPiece>([&](int i) { return at(first + i * kPiece); });
    } else {
      T elements[kPerVec<T>] = {};
      for (int i = 0; i < kCount; ++i) elements[i] = *at(first + i);
      return load_bits<kPerVec<T>>(elements);
    }
  }
};

}  // namespace kgen
