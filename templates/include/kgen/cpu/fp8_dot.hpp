// 8-bit keys and values with queries of bf16: both products by pairs of bf16.
//
// 64 codes go through two tables at once, one for each byte of a bf16; interleaving the bytes makes words of
// them. That leaves elements in an order of its own, within 128 bits: whoever meets them is put into it once.
#pragma once

#include "kgen/cpu/fp8.hpp"
#include "kgen/cpu/packed.hpp"

#if defined(KGEN_DOTS_OF_BF16)
namespace kgen {

static_assert(kLanes == 16);

inline constexpr int kChunk = 64;  // codes in a register

using Bytes = uint8_t __attribute__((vector_size(kChunk)));

namespace detail {

/// The lower (kFrom 0) or upper (8) halves of every 16 bytes of both, byte by byte in turn.
template <int kFrom, int... I>
KGEN_INLINE Bytes interleave_bytes(Bytes a, Bytes b, Indices<I...>) {
  return __builtin_shufflevector(a, b, (I / 16 * 16 + kFrom + I % 16 / 2 + I % 2 * kChunk)...);
}

}  // namespace detail

template <int kFrom>
KGEN_INLINE Bytes interleaved(Bytes a, Bytes b) {
  return detail::interleave_bytes<kFrom>(a, b, typename detail::Count<kChunk>::type{});
}

/// The first N codes of a row from `first` on; the rest are 0 and their memory is not touched.
template <int N, class T, int W>
KGEN_INLINE Bytes load_chunk(Row<T, W> row, int first) {
  constexpr int kPiece = W == 0 ? N : W & -W;
  Bytes codes{};
  if constexpr (N <= kPiece) {
    std::memcpy(&codes, row.at(first), N);
  } else if constexpr (kPiece == 16 && N % 16 == 0) {
    const Words words = join_pieces<N / 16>([&](int i) { return row.at(first + i * 16); });
    std::memcpy(&codes, &words, sizeof codes);
  } else {
    uint8_t bytes[kChunk] = {};
    for (int i = 0; i < N; i += kPiece) std::memcpy(bytes + i, row.at(first + i), min(kPiece, N - i));
    std::memcpy(&codes, bytes, sizeof codes);
  }
  return codes;
}

/// The bf16 of 64 codes as words of two: of every 16 codes the first 8, and the others.
template <class T>
KGEN_INLINE void chunk_words(Bytes codes, Words& even, Words& odd) {
  Bytes low = codes, high = codes;
#if defined(KGEN_CODE_TABLES)
  Bytes tables[4];
  std::memcpy(tables, &kCodeTables<T>, sizeof tables);
  asm("vpermi2b %2, %1, %0" : "+v"(low) : "v"(tables[0]), "v"(tables[1]));
  asm("vpermi2b %2, %1, %0" : "+v"(high) : "v"(tables[2]), "v"(tables[3]));
#else
  for (int i = 0; i < kChunk; ++i) {
    low[i] = static_cast<uint8_t>(bf16_of<T>(codes[i] & 0x7fu));
    high[i] = static_cast<uint8_t>(bf16_of<T>(codes[i] & 0x7fu) >> 8);
  }
#endif
  high |= codes & 0x80;
  even = reinterpret_cast<Words>(interleaved<0>(low, high));
  odd = reinterpret_cast<Words>(interleaved<8>(low, high));
}

/// A chunk of a row, as `chunk_words` has it.
struct ChunkOperand {
  Words even, odd;
};

template <class KV>
struct ChunkDot {
  using Operand = ChunkOperand;
  static constexpr int kElements = kChunk;

  template <int N = kChunk, int W>
  KGEN_INLINE static Operand query(Row<bf16, W> row, int first) {
    static_assert(N % 8 == 0 && W == 0);
    bf16 elements[2][kChunk / 2] = {};
    for (int i = 0; i < N; i += 8) std::memcpy(elements[i % 16 / 8] + i / 16 * 8, row.at(first + i), 16);
    Operand operand;
    std::memcpy(&operand, elements, sizeof operand);
    return operand;
  }

  template <int N = kChunk, int W>
  KGEN_INLINE static Operand load(Row<KV, W> row, int first) {
    Operand operand;
    chunk_words<KV>(load_chunk<N>(row, first), operand.even, operand.odd);
    return operand;
  }

  KGEN_INLINE static Operand negated(Operand a) { return {a.even ^ 0x80008000u, a.odd ^ 0x80008000u}; }

  KGEN_INLINE static Operand stored(const Operand* p) { return *p; }

  KGEN_INLINE static void accumulate(Vec& sum, const Operand& a, const Operand& b) {
#if !defined(KGEN_BF16_DOTS)
    asm("vdpbf16ps %3, %1, %0\n\tvdpbf16ps %4, %2, %0"
        : "+v"(sum)
        : "v"(b.even), "v"(b.odd), "m"(a.even), "m"(a.odd));
#else
    Bf16Dot::accumulate(sum, a.even, b.even);
    Bf16Dot::accumulate(sum, a.odd, b.odd);
#endif
  }
};

template <>
struct Dot<bf16, fp8_e4m3> : ChunkDot<fp8_e4m3> {};

template <>
struct Dot<bf16, fp8_e5m2> : ChunkDot<fp8_e5m2> {};

/// As add_dots, a column at a time, where registers hold no more: load(j) gives column j.
template <class Dots, int R, int C, class Load, class Between>
KGEN_INLINE void add_dots_by_column(Vec (&sums)[R][C], const typename Dots::Operand* a, int stride, Load load,
                                    Between between) {
  unroll<C>([&](int j) KGEN_LAMBDA {
    const typename Dots::Operand column = load(j);
    unroll<R>([&](int r) KGEN_LAMBDA { Dots::accumulate(sums[r][j], a[r * stride], column); });
    between(j);
  });
}

/// The values of two tokens, element beside element, for half of every 16 elements of a chunk: sums of what
/// they are multiplied with are in registers of 4 elements out of every 16.
template <class KV, int kHalf>
KGEN_INLINE void pair_values(Bytes first, Bytes second, Words (&words)[2]) {
  chunk_words<KV>(interleaved<8 * kHalf>(first, second), words[0], words[1]);
}

/// Where element i of a chunk is among the sums of a row.
constexpr int paired_lane(int i) { return i % 16 / 4 * 16 + i / 16 * 4 + i % 4; }

/// scale times the sums of a row of kPadded elements, in the order of elements.
template <int kPadded>
KGEN_INLINE void in_order(const float* sums, float scale, float* row) {
  for (int i = 0; i < kPadded; i += 4) {
    Quad quad;
    std::memcpy(&quad, sums + i / kChunk * kChunk + paired_lane(i % kChunk), sizeof quad);
    quad *= scale;
    std::memcpy(row + i, &quad, sizeof quad);
  }
}

}  // namespace kgen
#endif
