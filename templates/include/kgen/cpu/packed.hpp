// Keys and values of a tile, rearranged so that many rows of queries can go through it.
//
// A word is a float, or, where the target multiplies pairs of bf16, two bf16. Keys lie step by step
// (a step is a word of head_dim) with the tokens of the tile side by side; values lie step by step (one
// token, or two) with the dims side by side. A row of queries, or of weights, is one word a step, so that
// both products of attention are the same loop: a word of the row times a register of the tile.
#pragma once

#include "kgen/cpu/dot.hpp"

namespace kgen {

/// How words of T are multiplied. kDepth: elements of T in a word.
template <class T>
struct Arithmetic {
  static constexpr int kDepth = 1;

  KGEN_INLINE static void accumulate(Vec& sum, Words a, Words b) {
    add_product(sum, as_floats(a), as_floats(b));
  }
};

#if defined(KGEN_DOTS_OF_BF16)
template <>
struct Arithmetic<bf16> {
  static constexpr int kDepth = 2;

  KGEN_INLINE static void accumulate(Vec& sum, Words a, Words b) { Bf16Dot::accumulate(sum, a, b); }
};
#endif

/// Sum registers of a product of rows by columns: as many as stay in registers beside the operands. The
/// states of the rows, a lane each, lie in one register.
inline constexpr int kProductRows = kLanes < 6 ? kLanes : 6;
inline constexpr int kProductColumns = kRegisters == 32 ? 4 : 2;

/// Words of rows that are `head_dim` long: whole blocks, so that the tail is zeros.
template <class T>
constexpr int row_words(int head_dim) {
  return (head_dim + kBlock - 1) / kBlock * kBlock / Arithmetic<T>::kDepth;
}

/// The words of block `b` of a row, elements past the N first of it being 0; a register, or two.
template <class T, int N, class TRow>
KGEN_INLINE void block_words(TRow row, int b, Words (&words)[2 / Arithmetic<T>::kDepth]) {
  if constexpr (Arithmetic<T>::kDepth == 2) {
    words[0] = row.template bits<N>(b * kBlock);
  } else {
    const Pair pair = Block<T>::template load<N>(row, b * kBlock);
    words[0] = as_words(pair.lo);
    words[1] = as_words(pair.hi);
  }
}

/// f(b, words) for every block of a row of kHeadDim elements.
template <class T, int kHeadDim, class TRow, class F>
KGEN_INLINE void for_each_block(TRow row, F f) {
  constexpr int kFull = kHeadDim / kBlock, kTail = kHeadDim % kBlock;
  Words words[2 / Arithmetic<T>::kDepth];
  for (int b = 0; b < kFull; ++b) {
    block_words<T, kBlock>(row, b, words);
    f(b, words);
  }
  if constexpr (kTail > 0) {
    block_words<T, kTail>(row, kFull, words);
    f(kFull, words);
  }
}

/// A row of queries as words, with the sign of every element changed where `negative`.
template <class T, int kHeadDim>
void pack_query(const T* row, bool negative, uint32_t* to) {
  constexpr int kRegs = 2 / Arithmetic<T>::kDepth;
  const Words flip = Words{} + (!negative ? 0u : Arithmetic<T>::kDepth == 2 ? 0x80008000u : 0x80000000u);
  for_each_block<T, kHeadDim>(Row<T, 0>{row, 0}, [&](int b, const Words(&words)[kRegs]) KGEN_LAMBDA {
    for (int i = 0; i < kRegs; ++i) {
      const Words word = words[i] ^ flip;
      std::memcpy(to + (b * kRegs + i) * kLanes, &word, sizeof word);
    }
  });
}

namespace detail {

template <int... I>
struct Indices {};

template <int N, int... I>
struct Count : Count<N - 1, N - 1, I...> {};

template <int... I>
struct Count<0, I...> {
  using type = Indices<I...>;
};

/// a0 b0 a1 b1 ..., from lane kFrom of both on.
template <int kFrom, int... I>
KGEN_INLINE Words interleave(Words a, Words b, Indices<I...>) {
  return __builtin_shufflevector(a, b, (kFrom + I / 2 + I % 2 * kLanes)...);
}

}  // namespace detail

/// Word j of register i becomes word i of register j. Each round deals two halves of the registers into
/// one another.
KGEN_INLINE void transpose(Words (&m)[kLanes]) {
  using All = typename detail::Count<kLanes>::type;
#pragma GCC unroll 4
  for (int round = 1; round < kLanes; round *= 2) {
    Words dealt[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i) {
      dealt[2 * i] = detail::interleave<0>(m[i], m[i + kLanes / 2], All{});
      dealt[2 * i + 1] = detail::interleave<kLanes / 2>(m[i], m[i + kLanes / 2], All{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) m[i] = dealt[i];
  }
}

/// Packs the keys of `count` tokens, of which at(t) gives the rows, as [row_words][kTokens] words; tokens
/// past them, up to kTokens, become 0.
template <class T, int kHeadDim, int kTokens, class At>
void pack_keys(int count, At at, uint32_t* to) {
  static_assert(kTokens % kLanes == 0);
  constexpr int kRegs = 2 / Arithmetic<T>::kDepth;
  constexpr int kWords = row_words<T>(kHeadDim);
  for (int t = 0; t < kTokens; t += kLanes) {
    alignas(kVecBytes) uint32_t rows[kLanes][kWords];
    for (int j = 0; j < kLanes; ++j) {
      if (t + j >= count) {
        std::memset(rows[j], 0, sizeof rows[j]);
        continue;
      }
      for_each_block<T, kHeadDim>(at(t + j), [&](int b, const Words(&words)[kRegs]) KGEN_LAMBDA {
        std::memcpy(rows[j] + b * kRegs * kLanes, words, sizeof words);
      });
    }
    for (int w = 0; w < kWords; w += kLanes) {
      Words m[kLanes];
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j) std::memcpy(&m[j], rows[j] + w, kVecBytes);
      transpose(m);
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j) std::memcpy(to + (w + j) * kTokens + t, &m[j], kVecBytes);
    }
  }
}

/// Packs the values of `count` tokens as [ceil(kTokens / kDepth)][padded head_dim] words, in the lanes of
/// Block<T>; the odd one out of a pair of tokens is 0. Steps past the tokens are not written.
template <class T, int kHeadDim, class At>
void pack_values(int count, At at, uint32_t* to) {
  constexpr int kPadded = (kHeadDim + kBlock - 1) / kBlock * kBlock;
  if constexpr (Arithmetic<T>::kDepth == 1) {
    for (int t = 0; t < count; ++t) {
      for_each_block<T, kHeadDim>(at(t), [&](int b, const Words(&words)[2]) KGEN_LAMBDA {
        std::memcpy(to + t * kPadded + b * kBlock, words, sizeof words);
      });
    }
  } else {
    for (int t = 0; t < count; t += 2) {
      uint32_t* step = to + t / 2 * kPadded;
      Words second[1] = {};
      const auto row = at(t + 1 < count ? t + 1 : t);
      for_each_block<T, kHeadDim>(at(t), [&](int b, const Words(&first)[1]) KGEN_LAMBDA {
        if (t + 1 < count) {
          constexpr int kTail = kHeadDim % kBlock;
          if (kTail == 0 || b < kHeadDim / kBlock) {
            block_words<T, kBlock>(row, b, second);
          } else {
            block_words<T, kTail == 0 ? kBlock : kTail>(row, b, second);
          }
        }
        const Words pairs[2] = {(first[0] & 0xffffu) | second[0] << 16,
                                first[0] >> 16 | (second[0] & 0xffff0000u)};
        std::memcpy(step + b * kBlock, pairs, sizeof pairs);
      });
    }
  }
}

/// A row of `count` weights as words; `to` may be the weights themselves where a word is a float. Weights
/// past them, up to the next multiple of two registers, must be there and are taken along.
template <class T>
KGEN_INLINE void pack_weights(const float* weights, int count, uint32_t* to) {
  for (int t = 0; t < count; t += 2 * kLanes) {
    const Pair pair = load_pair(weights + t);
    if constexpr (Arithmetic<T>::kDepth == 1) {
      std::memcpy(to + t, &pair, sizeof pair);
    } else {
#if !defined(KGEN_BF16_DOTS)
      Words words;
      asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(words) : "v"(pair.lo), "v"(pair.hi));
      std::memcpy(to + t / 2, &words, sizeof words);
#else
      T narrow[2 * kLanes];
      for (int i = 0; i < 2 * kLanes; ++i) narrow[i] = from_float<T>(weights[t + i]);
      std::memcpy(to + t / 2, narrow, sizeof narrow);
#endif
    }
  }
}

/// The same with every weight times a factor.
template <class T>
KGEN_INLINE void pack_weights(const float* weights, int count, float factor, uint32_t* to) {
  alignas(kVecBytes) float scaled[2 * kLanes];
  for (int t = 0; t < count; t += 2 * kLanes) {
    store_pair(scaled, load_pair(weights + t) * broadcast(factor));
    pack_weights<T>(scaled, 2 * kLanes, to + t / Arithmetic<T>::kDepth);
  }
}

/// out[r] = shrink[r] * out[r] + rows[r] times C registers of columns, over `steps` words; with kFresh,
/// without what was there. By itself, so that nothing around it competes for its registers.
template <class T, int R, int C, bool kFresh>
KGEN_NOINLINE void product(const uint32_t* rows, int row_stride, const uint32_t* columns, int column_stride,
                           int steps, const float* shrink, float* out, int out_stride) {
  Vec sums[R][C];
  unroll<R>([&](int r) KGEN_LAMBDA {
    unroll<C>([&](int c) KGEN_LAMBDA {
      sums[r][c] = kFresh ? Vec{} : load(out + r * out_stride + c * kLanes) * broadcast(shrink[r]);
    });
  });
  for (int s = 0; s < steps; ++s) {
    Words column[C];
    unroll<C>([&](int c) KGEN_LAMBDA {
      std::memcpy(&column[c], columns + s * column_stride + c * kLanes, kVecBytes);
    });
    unroll<R>([&](int r) KGEN_LAMBDA {
      const Words word = Words{} + rows[r * row_stride + s];
      unroll<C>([&](int c) KGEN_LAMBDA { Arithmetic<T>::accumulate(sums[r][c], word, column[c]); });
    });
  }
  unroll<R>([&](int r) KGEN_LAMBDA {
    unroll<C>([&](int c) KGEN_LAMBDA { store(out + r * out_stride + c * kLanes, sums[r][c]); });
  });
}

}  // namespace kgen
