// The two inner loops of attention, held in registers.
//
// A dot tile sums along lanes: every row of queries times every row of keys. A scaled-sum tile
// sums across registers: rows of weights times rows of values. Which of them a product takes is
// decided by the axis that lies contiguous in memory.
#pragma once

#include "kgen/cpu/dot.hpp"

namespace kgen {

/// Rows that are multiplied at once with what is loaded, so that sums and operands fit in registers.
inline constexpr int kMaxRows = kRegisters == 32 ? 8 : 4;

/// How many columns (tokens, or outputs of a transposed product) a dot tile of R rows takes: at
/// least 8 sums, which covers the latency of fma.
constexpr int dot_columns(int rows) {
  if (kRegisters == 32) return rows == 1 ? 8 : rows <= 4 ? 4 : 2;
  return rows == 1 ? 8 : rows <= 3 ? 4 : 2;
}

/// How many blocks of outputs a scaled-sum tile of R rows takes.
constexpr int sum_blocks(int rows) {
  if (kRegisters == 32) return rows == 1 ? 4 : rows <= 4 ? 2 : 1;
  return rows == 1 ? 4 : rows <= 3 ? 2 : 1;
}

/// Writes the lane sums of each sums[r][j] to out[r * stride + j].
template <int R, int T>
KGEN_INLINE void store_dots(const Vec (&sums)[R][T], float* out, int stride) {
  static_assert(T % 2 == 0);
  if constexpr (T % 4 == 0) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < T; j += 4) {
        float* to = out + r * stride + j;
        store_sums(sums[r][j], sums[r][j + 1], sums[r][j + 2], sums[r][j + 3], to, to + 2);
      }
    }
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < R; r += 2) {
      const int next = r + 1 < R ? r + 1 : r;
      store_sums(sums[r][0], sums[r][1], sums[next][0], sums[next][1], out + r * stride, out + next * stride);
    }
  }
}

/// sums[r][j] += a(r) * b(j), lane by lane, where a and b give operands of Dot<T>.
template <class T, int R, int C, class A, class B>
KGEN_INLINE void dot_step(Vec (&sums)[R][C], A a, B b) {
  typename Dot<T>::Operand columns[C];
#pragma GCC unroll 8
  for (int j = 0; j < C; ++j) columns[j] = b(j);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const auto row = a(r);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sums[r][j] = Dot<T>::accumulate(sums[r][j], row, columns[j]);
  }
}

/// sums[r][n] += weight(r) * block(n).
template <int R, int N, class Weight, class Blocks>
KGEN_INLINE void scaled_sum_step(Pair (&sums)[R][N], Weight weight, Blocks block) {
  Pair blocks[N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) blocks[n] = block(n);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const Vec w = broadcast(weight(r));
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sums[r][n] = fma(blocks[n], w, sums[r][n]);
  }
}

}  // namespace kgen
