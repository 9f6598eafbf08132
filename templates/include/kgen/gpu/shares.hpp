// Even shares of decode: the tiles of all rows lie on a line, which is cut into as many stretches of one
// length as there are workers, so that all of them end together whatever the rows are like.
//
// A row is one sequence under one head (a pass of query heads over a KV head). On the line rows stand head
// after head, and under a head in the order of sequences. A row takes Cost places, what its start and end are
// worth in tiles, and then one for each tile. Cuts fall where they fall, but not within Least tiles of the
// ends of a row: those move to the end. A row that is cut has pieces, numbered in their order, of workers
// that follow each other.
//
// Everything follows from the lengths alone, so that each worker finds its own share. Lanes of a wave do it
// together and end with the same.
#pragma once

#include "kgen/gpu/dialect.hpp"

namespace kgen {

// The sum of x over the lanes before this one, and over all.
struct Scan {
  int before, all;
};

KGEN_DEVICE Scan scan(int x, Where where = here()) {
  int sum = x;
  KGEN_UNROLL
  for (int step = 1; step < kWave; step *= 2) {
    const int lane = lane_id() - step;
    const int other = shuffle(sum, lane < 0 ? 0 : lane, where);
    sum += lane < 0 ? 0 : other;
  }
  return {sum - x, shuffle(sum, kWave - 1, where)};
}

// The last lane whose value is not above `limit`; values rise from lane to lane, the first is not above.
KGEN_DEVICE int last_lane_to(int limit, int value, Where where = here()) {
  int found = 0;
  KGEN_UNROLL
  for (int step = kWave / 2; step > 0; step /= 2) {
    if (shuffle(value, found + step, where) <= limit) found += step;
  }
  return uniform(found, where);
}

// The stretch of the line under one head. `places(seq)` says how many a sequence takes; a lane counts `each_`
// of them first.
template <typename Places>
class Line {
 public:
  struct Row {
    int seq, begin;  // begin: its first place
  };

  KGEN_DEVICE Line(int seqs, const Places& places)
      : places_(places), seqs_(seqs), each_((seqs + kWave - 1) / kWave) {
    int own = 0;
    for (int i = 0; i < each_; ++i) {
      const int seq = lane_id() * each_ + i;
      if (seq < seqs_) own += places_(seq);
    }
    const Scan found = scan(own);
    before_ = found.before;
    length_ = uniform(found.all);
  }

  KGEN_DEVICE int length() const { return length_; }
  KGEN_DEVICE int seqs() const { return seqs_; }
  KGEN_DEVICE int places(int seq) const { return places_(seq); }

  // The row that has a place, which is on the line.
  KGEN_DEVICE Row row_of(int place) const {
    const int lane = last_lane_to(place, before_);
    int begin = uniform(shuffle(before_, lane));
    if (each_ == 1) return {lane, begin};
    for (int first = lane * each_;; first += kWave) {
      const int seq = first + lane_id();
      const Scan found = scan(seq < seqs_ ? places_(seq) : 0);
      if (place < begin + found.all) {
        const int within = last_lane_to(place - begin, found.before);
        return {first + within, begin + uniform(shuffle(found.before, within))};
      }
      begin += uniform(found.all);
    }
  }

 private:
  Places places_;
  int seqs_, each_, before_, length_;
};

// A place between two tiles: before tile `tile` of a row that begins at `begin` on the line.
struct Cut {
  int head, seq, tile, begin;
};

// The pieces of a row that is cut: piece i is of worker first + i.
struct Pieces {
  int first, count;
};

template <int Cost, int Least>
class Shares {
 public:
  // A line of `length` places under each of `heads`; `most` workers, each with `share` places at least.
  KGEN_DEVICE Shares(int length, int heads, int most, int share) : length_(length), heads_(heads) {
    const int total = length * heads;
    const int wanted = total / share;
    workers_ = total == 0 ? 0 : wanted < 1 ? 1 : wanted < most ? wanted : most;
    share_ = workers_ == 0 ? 1 : total / workers_;
    larger_ = total - share_ * workers_;
  }

  // Workers that have a share.
  KGEN_DEVICE int workers() const { return workers_; }

  // Where the share of a worker begins; that of the last one ends where one more would begin.
  template <typename Line>
  KGEN_DEVICE Cut cut(const Line& line, int worker) const {
    const int place = place_of(worker);
    const int head = place / length_;
    if (head == heads_) return {head, 0, 0, 0};
    const auto row = line.row_of(place - head * length_);
    const int tiles = line.places(row.seq) - Cost;
    const int tile = tile_of(place - head * length_ - row.begin, tiles);
    const int begin = head * length_ + row.begin;
    if (tile == 0 || tile < tiles) return {head, row.seq, tile, begin};
    const bool last = row.seq + 1 == line.seqs();
    return {last ? head + 1 : head, last ? 0 : row.seq + 1, 0, 0};
  }

  // The pieces of the row that begins at a place.
  KGEN_DEVICE Pieces pieces(int begin, int tiles) const {
    const int first = worker_from(begin + Cost + Least);
    if (tiles < 2 * Least) return {first - 1, 1};
    return {first - 1, worker_from(begin + Cost + tiles - Least + 1) - first + 1};
  }

 private:
  KGEN_DEVICE int place_of(int worker) const {
    return worker * share_ + (worker < larger_ ? worker : larger_);
  }

  // The first worker whose share begins at a place or after it.
  KGEN_DEVICE int worker_from(int place) const {
    const int turn = larger_ * (share_ + 1);
    if (place <= turn) return (place + share_) / (share_ + 1);
    return larger_ + (place - turn + share_ - 1) / share_;
  }

  // The tile of a row before which a cut falls, `at` places from the row's first.
  KGEN_DEVICE static int tile_of(int at, int tiles) {
    const int tile = at - Cost;
    if (tiles < 2 * Least) return 2 * tile < tiles ? 0 : tiles;
    return tile < Least ? 0 : tile > tiles - Least ? tiles : tile;
  }

  int length_, heads_, workers_, share_, larger_;
};

}  // namespace kgen
