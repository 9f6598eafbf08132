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
#if KGEN_LANES == 16
  if constexpr (R == 4 && T == 4) {
    Vec rows[R];
    unroll<R>([&](int r) KGEN_LAMBDA {
      rows[r] = reduce_quarters(sums[r][0], sums[r][1], sums[r][2], sums[r][3], Add{});
    });
    const Vec dots = join_quarters(rows[0], rows[1], rows[2], rows[3], Add{});
    unroll<R>([&](int r) KGEN_LAMBDA {
      std::memcpy(out + r * stride, reinterpret_cast<const float*>(&dots) + 4 * r, sizeof(Quad));
    });
    return;
  }
#endif
  if constexpr (T % 4 == 0) {
    unroll<R * T / 4>([&](int i) KGEN_LAMBDA {
      const int r = i / (T / 4), j = i % (T / 4) * 4;
      const Quad dots = reduce(sums[r][j], sums[r][j + 1], sums[r][j + 2], sums[r][j + 3], Add{});
      std::memcpy(out + r * stride + j, &dots, sizeof dots);
    });
  } else {
    static_assert(T == 2);
    unroll<(R + 1) / 2>([&](int i) KGEN_LAMBDA {
      const int r = i * 2, next = min(r + 1, R - 1);
      const Quad dots = reduce(sums[r][0], sums[r][1], sums[next][0], sums[next][1], Add{});
      std::memcpy(out + r * stride, &dots, 8);
      std::memcpy(out + next * stride, reinterpret_cast<const char*>(&dots) + 8, 8);
    });
  }
}

/// Keeps GCC from folding a load that has several uses into each of them.
KGEN_INLINE void hold([[maybe_unused]] Pair& v) {
#if (defined(KGEN_AVX512) || defined(KGEN_AVX2)) && !defined(__clang__)
  asm("" : "+v"(v.lo), "+v"(v.hi));
#endif
}

KGEN_INLINE void hold(Words&) {}

/// What there is to do between the rows of a tile: by itself nothing.
struct Nothing {
  KGEN_INLINE void operator()(int) const {}
};

/// sums[r][j] += a[r * stride] . b[j], lane by lane; between(r) after each row.
template <class Dots, int R, int C, class Between = Nothing>
KGEN_INLINE void add_dots(Vec (&sums)[R][C], const typename Dots::Operand* a, int stride,
                          const typename Dots::Operand (&b)[C], Between between = {}) {
  unroll<R>([&](int r) KGEN_LAMBDA {
    typename Dots::Operand row = Dots::stored(a + r * stride);
    hold(row);
    unroll<C>([&](int j) KGEN_LAMBDA { Dots::accumulate(sums[r][j], row, b[j]); });
    between(r);
  });
}

/// sums[r][n] += weights[r * stride] * blocks[n]; between(r) after each row.
template <int R, int N, class Between = Nothing>
KGEN_INLINE void add_scaled(Pair (&sums)[R][N], const float* weights, int stride, const Pair (&blocks)[N],
                            Between between = {}) {
  unroll<R>([&](int r) KGEN_LAMBDA {
    const Vec w = broadcast(weights[r * stride]);
    unroll<N>([&](int n) KGEN_LAMBDA {
      add_product(sums[r][n].lo, blocks[n].lo, w);
      add_product(sums[r][n].hi, blocks[n].hi, w);
    });
    between(r);
  });
}

}  // namespace kgen
