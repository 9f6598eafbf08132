// Even shares of lines that a test lays, as words a test can read.
#define KGEN_LDS_LIMIT 65536
#include "kgen/gpu/shares.hpp"

namespace {

struct Args {
  int64_t abi, words, error, data, count;
};

// data: rows, most workers, least share, enough workers, the places of each row; then the workers and, of each and one more: seq,
// tile, and the pieces of a row that is cut.
struct Places {
  kgen::Global<int> data;

  int load(int seq) const { return data.load(4 + seq); }
  int operator()(int, int places) const { return places; }
};

void shares(const Args& a) {
  const kgen::Global<int> data(a.data, a.count);
  const int rows = data.load(0);
  const int most = data.load(1);
  const kgen::Line<Places> line(rows, Places{data});
  const kgen::Shares<kCost, kLeast> shares(line, most, data.load(2), data.load(3));
  const bool first = kgen::thread_id() == 0;
  if (first) data.store(4 + rows, shares.workers());
  for (int worker = 0; worker <= shares.workers() && shares.workers() > 0; ++worker) {
    const kgen::Cut cut = shares.cut(line, worker);
    const kgen::Pieces pieces = cut.tile > 0 ? shares.pieces(cut.begin, cut.tiles) : kgen::Pieces{0, 0};
    const int words[] = {cut.seq, cut.tile, pieces.first, pieces.count};
    for (int i = 0; i < 4 && first; ++i) data.store(5 + rows + 4 * worker + i, words[i]);
  }
}

}  // namespace

KGEN_EXPORT int run_shares(const int64_t* words) {
  return kgen::sim::run<Args>(words, 1, 1, 7, [](const Args& a) {
    kgen::sim::launch("shares", {1, 1, 1}, kgen::kWave, [&] { shares(a); });
  });
}
