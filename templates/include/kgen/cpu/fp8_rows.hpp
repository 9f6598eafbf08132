// Rows of one type as rows of the type that products take, in the order of elements.
#pragma once

#include "kgen/cpu/fp8.hpp"
#include "kgen/cpu/packed.hpp"

namespace kgen {

/// What queries of T and 8-bit keys are multiplied as: pairs of bf16 where the target does that, else floats.
template <class T>
struct MathOf {
  using type = float;
};

#if defined(KGEN_DOTS_OF_BF16)
template <>
struct MathOf<bf16> {
  using type = bf16;
};
#endif

/// N elements of a row, exactly: codes and 16-bit floats as floats.
template <int N, class T, int W>
KGEN_INLINE void widen_row(Row<T, W> row, float* to) {
  constexpr int kWhole = N / kBlock * kBlock;
  for (int i = 0; i < kWhole; i += kBlock) store_pair(to + i, Block<T>::load_ordered(row, i));
  if constexpr (kWhole < N) {
    float rest[kBlock];
    store_pair(rest, Block<T>::template load_ordered<N - kWhole>(row, kWhole));
    std::memcpy(to + kWhole, rest, (N - kWhole) * sizeof(float));
  }
}

#if defined(KGEN_DOTS_OF_BF16)
/// Codes as bf16.
template <int N, class T, int W>
KGEN_INLINE void widen_row(Row<T, W> row, bf16* to) {
  constexpr int kWhole = N / kBlock * kBlock;
  const auto block = [&](auto count, int i) KGEN_LAMBDA {
    const Words words = bf16_words<T>(load_codes<count()>(row, i));
    std::memcpy(to + i, &words, count() * sizeof(bf16));
  };
  for (int i = 0; i < kWhole; i += kBlock) block(Constant<kBlock>{}, i);
  if constexpr (kWhole < N) block(Constant<N - kWhole>{}, kWhole);
}
#endif

/// A row as a row of M: as it is where it lies so, else in `room` for N elements.
template <class M, int N, class T, int W>
KGEN_INLINE Row<M, 0> row_of(Row<T, W> row, M* room) {
  widen_row<N>(row, room);
  return {room, 0};
}

template <class M, int N>
KGEN_INLINE Row<M, 0> row_of(Row<M, 0> row, M*) {
  return row;
}

}  // namespace kgen
