// Kernels whose lanes meet on banks of shared memory: two blocks of 128 threads, over `data` whose first word says how
// far apart they read or store.
#define KGEN_LDS_LIMIT 65536
constexpr int kBlocks = 2, kThreads = 128;
#include "kernels.hpp"

// Every 4-byte word of LDS, stored in a row.
static kgen::LdsArray<int> filled(const kgen::Lds& lds) {
  const auto words = lds.array<int>(0, 16384);
  for (int i = t(); i < 16384; i += kThreads) words.store(i, i);
  kgen::block_sync();
  return words;
}

KERNEL(reads_every_nth_word) {
  KGEN_LDS(lds, 65536);
  const auto words = filled(lds);
  const int apart = ints(a).load(0);
  const int got = words.load(t() * apart);
  if (got != t() * apart) ints(a).store(1, -1);
}

KERNEL(reads_rows_of_vectors) {
  KGEN_LDS(lds, 65536);
  const auto words = filled(lds);
  const int apart = ints(a).load(0);  // vectors of 4 words
  words.load<4>(4 * (t() % 16 * apart + t() / 16));
}

KERNEL(stores_rows_of_vectors) {
  KGEN_LDS(lds, 65536);
  const auto words = lds.array<int>(0, 16384);
  const int apart = ints(a).load(0);
  words.store(4 * (t() % 16 * apart + t() / 16), Vec<int, 4>{});
}

KERNEL(reads_pairs_by_some_lanes) {
  KGEN_LDS(lds, 65536);
  const auto words = filled(lds);
  for (int i = 0; i < 3; ++i) {
    if (t() % 2 == 0) words.load<2>(t() * 16);
  }
}
