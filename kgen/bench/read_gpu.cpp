// The ceilings of GPU kernels: grids that read memory and do nothing else. Written in the dialect of the
// templates, so that one source serves every GPU and the simulator.
//
// A wave takes one piece after another: `piece` words, or what is left of a page or span, 16 bytes a lane
// and kUnroll of them in flight. Every wave leaves what it read, xored, in `sums`, so that the reads have
// a use. Words have 32 bits.

#include "kgen/gpu/dialect.hpp"

using kgen::Global;
using kgen::Vec;

struct Args {
  int64_t abi, words, error;
  int64_t k, v;           // addresses of the caches; of a stream only k
  int64_t table;          // page ids (int32) in the order to read them in
  int64_t sums;           // one word for each wave of the grid
  int64_t entries;        // of the table; 1 for a stream
  int64_t page;           // words in a page of K, and of V; of a stream all there are
  int64_t piece, pieces;  // words in a piece; pieces in a page
  int64_t blocks;         // along x of the grid
};

constexpr int kThreads = 256;
constexpr int kWaves = kThreads / kgen::kWave;
constexpr int kUnroll = 8;
constexpr int kLaneWords = 4;
constexpr int kWaveWords = kgen::kWave * kLaneWords;

KGEN_DEVICE int folded(int sum, const Vec<int, kLaneWords>& words) {
  return sum ^ words[0] ^ words[1] ^ words[2] ^ words[3];
}

// The words `first` to `last` of a memory, xored lane by lane.
KGEN_DEVICE int read_span(const Global<int>& memory, int64_t first, int64_t last) {
  int sum = 0;
  int64_t at = first + kgen::lane_id() * kLaneWords;
  for (; at + (kUnroll - 1) * kWaveWords < last; at += kUnroll * kWaveWords) {
    Vec<int, kLaneWords> words[kUnroll];
    KGEN_UNROLL
    for (int i = 0; i < kUnroll; ++i) words[i] = memory.load<kLaneWords>(at + i * kWaveWords);
    KGEN_UNROLL
    for (int i = 0; i < kUnroll; ++i) sum = folded(sum, words[i]);
  }
  for (; at < last; at += kWaveWords) sum = folded(sum, memory.load<kLaneWords>(at));
  return sum;
}

KGEN_DEVICE void leave(const Args& a, int wave, int sum) {
  KGEN_UNROLL
  for (int mask = 1; mask < kgen::kWave; mask *= 2) sum ^= kgen::shuffle(sum, kgen::lane_id() ^ mask);
  const Global<int> sums(a.sums, 2 * a.blocks * kWaves);
  if (kgen::lane_id() == 0) sums.store(wave, sum);
}

KGEN_DEVICE int least(int64_t one, int64_t other) { return static_cast<int>(one < other ? one : other); }

// The pages of K (block_y 0) and of V (block_y 1) that the table names.
KGEN_KERNEL(kThreads, 4) void kgen_read_pages(const Args a) {
  const unsigned waves = static_cast<unsigned>(a.blocks) * kWaves;
  const unsigned wave = kgen::block_x() * kWaves + kgen::wave_id();
  const unsigned pieces = static_cast<unsigned>(a.pieces);
  const unsigned items = static_cast<unsigned>(a.entries) * pieces;
  const int piece = static_cast<int>(a.piece);
  const Global<int> table(a.table, a.entries);
  const int64_t cache = kgen::block_y() == 0 ? a.k : a.v;
  int sum = 0;
  for (unsigned item = wave; item < items; item += waves) {
    const int page = table.load(item / pieces);
    const int first = static_cast<int>(item % pieces) * piece;
    const Global<int> words(cache + page * a.page * 4, a.page);
    sum ^= read_span(words, first, least(first + piece, a.page));
  }
  leave(a, static_cast<int>(kgen::block_y() * waves + wave), sum);
}

// One span from front to back.
KGEN_KERNEL(kThreads, 4) void kgen_read_stream(const Args a) {
  const unsigned waves = static_cast<unsigned>(a.blocks) * kWaves;
  const unsigned wave = kgen::block_x() * kWaves + kgen::wave_id();
  const unsigned items = static_cast<unsigned>(a.pieces);
  const Global<int> words(a.k, a.page);
  int sum = 0;
  for (unsigned item = wave; item < items; item += waves) {
    const int64_t first = item * a.piece;
    const int64_t left = a.page - first;
    sum ^= read_span(words, first, first + (left < a.piece ? left : a.piece));
  }
  leave(a, static_cast<int>(wave), sum);
}

#if defined(KGEN_SIM)
// Both on the simulator; the codes of its errors are those of kgen.manifest.
extern "C" __attribute__((visibility("default"))) int kgen_read_pages_sim(const int64_t* words) {
  return kgen::sim::run<Args>(words, KGEN_ABI, 1, 7, [](const Args& a) {
    kgen::sim::launch("kgen_read_pages", {a.blocks, 2, 1}, kThreads, [&] { kgen_read_pages(a); });
  });
}
extern "C" __attribute__((visibility("default"))) int kgen_read_stream_sim(const int64_t* words) {
  return kgen::sim::run<Args>(words, KGEN_ABI, 1, 7, [](const Args& a) {
    kgen::sim::launch("kgen_read_stream", {a.blocks, 1, 1}, kThreads, [&] { kgen_read_stream(a); });
  });
}
#endif
