// Even shares of decode: under each head (a pass of query heads over a KV head) the tiles of all sequences
// lie on a line, which is cut into stretches of one length, so that all of them end together whatever the
// sequences are like. Every head is cut alike: what lies side by side in memory, the heads of a token, is
// read at about the same time.
//
// A row is one sequence under one head. It takes Cost places on the line, what its start and end are worth in
// tiles, and then one for each tile. Cuts fall where they fall, but not within Least tiles of the ends of a
// row: those move to the end. A row that is cut has pieces, numbered in their order, of workers that follow
// each other.
//
// Rows of one length are not cut at all where whole rows make equal shares and these are enough to keep
// memory busy, and else all at the same places.
//
// Everything follows from the lengths alone, so that each worker finds its own share. Lanes of a wave do it
// together and end with the same. All blocks wait for it before the first key is asked for, and its
// instructions come from memory: few of them, and few divisions.
#pragma once

#include "kgen/gpu/dialect.hpp"

namespace kgen {

// a / b of numbers that are not negative, which takes a chip fewer instructions than one with signs.
KGEN_DEVICE int quotient(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
}

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
  return bits_set(ballot(value <= limit, where)) - 1;
}

// The line under a head. `places.load(seq)` reads the length of a sequence, and places(seq, length) says how
// many places it takes; a lane counts `each_` sequences, and keeps the first few, so that most batches are
// read once.
template <typename Places>
class Line {
 public:
  struct Row {
    int seq, begin, places;  // begin: its first place
  };

  KGEN_DEVICE Line(int seqs, const Places& places)
      : places_(places), seqs_(seqs), each_((seqs + kWave - 1) / kWave) {
    const int first = lane_id() * each_;
    int own = 0;
    bool alike = true;  // the rows of this lane to the very first
    KGEN_NO_UNROLL
    for (int from = 0; from < each_; from += kKept) {
      // All are asked for before the first is there: what is past the last is the last again, and does not
      // count.
      int lengths[kKept], places[kKept];
      KGEN_UNROLL
      for (int i = 0; i < kKept; ++i) {
        const int seq = first + from + i;
        lengths[i] = places_.load(seq < seqs_ ? seq : seqs_ - 1);
      }
      KGEN_UNROLL
      for (int i = 0; i < kKept; ++i) {
        const int seq = first + from + i;
        places[i] = from + i < each_ && seq < seqs_ ? places_(seq, lengths[i]) : 0;
        own += places[i];
        if (from == 0) kept_[i] = places[i];
      }
      if (from == 0) first_ = uniform(shuffle(places[0], 0));
      KGEN_UNROLL
      for (int i = 0; i < kKept; ++i) alike = alike && (places[i] == 0 || places[i] == first_);
    }
    const Scan found = scan(own);
    before_ = found.before;
    length_ = uniform(found.all);
    alike_ = ballot(!alike) == 0;
  }

  KGEN_DEVICE int length() const { return length_; }
  KGEN_DEVICE int seqs() const { return seqs_; }
  // The places of every row, where all have as many; else 0.
  KGEN_DEVICE int each_row() const { return alike_ ? first_ : 0; }

  // The row that has a place, which is on the line.
  KGEN_DEVICE Row row_of(int place) const {
    const int lane = last_lane_to(place, before_);
    Row own = {lane_id() * each_, before_, kept_[0]};  // of those that a lane keeps, the one or the last
    KGEN_UNROLL
    for (int i = 1; i < kKept; ++i) {
      if (i < each_ && place >= own.begin + own.places) {
        own = {own.seq + 1, own.begin + own.places, kept_[i]};
      }
    }
    const Row row = {uniform(shuffle(own.seq, lane)), uniform(shuffle(own.begin, lane)),
                     uniform(shuffle(own.places, lane))};
    if (place < row.begin + row.places) return row;
    KGEN_NO_UNROLL
    for (int first = row.seq + 1, begin = row.begin + row.places;; first += kWave) {
      const int seq = first + lane_id();
      const int places = seq < seqs_ ? places_(seq, places_.load(seq)) : 0;
      const Scan found = scan(places);
      if (place < begin + found.all) {
        const int within = last_lane_to(place - begin, found.before);
        return {first + within, begin + uniform(shuffle(found.before, within)),
                uniform(shuffle(places, within))};
      }
      begin += uniform(found.all);
    }
  }

 private:
  static constexpr int kKept = 8;

  Places places_;
  int seqs_, each_, before_, length_, first_ = 0;
  bool alike_;
  int kept_[kKept] = {};
};

// A place between two tiles: before tile `tile` of `tiles` of a row that begins at `begin` on the line.
struct Cut {
  int seq, tile, tiles, begin;
};

// The pieces of a row that is cut: piece i is of worker first + i.
struct Pieces {
  int first, count;
};

template <int Cost, int Least>
class Shares {
 public:
  // `most` workers, each with `share` places at least; where all rows are alike, at least `enough`.
  template <typename Line>
  KGEN_DEVICE Shares(const Line& line, int most, int share, int enough) : length_(line.length()) {
    const int wanted = quotient(length_, share);
    workers_ = length_ == 0 ? 0 : wanted < 1 ? 1 : wanted < most ? wanted : most;
    period_ = length_;
    in_period_ = workers_ < 1 ? 1 : workers_;
    const int row = line.each_row();
    if (row > 0 && workers_ > 0) share_alike(line.seqs(), row, enough < workers_ ? enough : workers_);
    share_ = in_period_ == 1 ? period_ : quotient(period_, in_period_);
    larger_ = period_ - share_ * in_period_;
  }

  // Workers that have a share.
  KGEN_DEVICE int workers() const { return workers_; }

  // Where the share of a worker begins; that of the last one ends where one more would begin.
  template <typename Line>
  KGEN_DEVICE Cut cut(const Line& line, int worker) const {
    const int place = place_of(worker);
    if (place == length_) return {line.seqs(), 0, 0, 0};
    const auto row = line.row_of(place);
    const int tiles = row.places - Cost;
    const int tile = tile_of(place - row.begin, tiles);
    if (tile == 0 || tile < tiles) return {row.seq, tile, tiles, row.begin};
    return {row.seq + 1, 0, 0, 0};
  }

  // The pieces of the row that begins at a place. All lanes: the first one looks for the first piece, others
  // for what comes after the last.
  KGEN_DEVICE Pieces pieces(int begin, int tiles) const {
    const int worker = worker_from(begin + Cost + (lane_id() == 0 ? Least : tiles - Least + 1));
    const int first = uniform(shuffle(worker, 0)) - 1;
    return {first, tiles < 2 * Least ? 1 : uniform(shuffle(worker, 1)) - first};
  }

 private:
  // Rows that are alike: some whole ones to a share or, where that were too few shares, each row cut alike.
  // Not where a last share with fewer rows would leave the others more than 1 in 32 above their part.
  KGEN_DEVICE void share_alike(int rows, int row, int enough) {
    if (rows < enough) {
      const int cuts = quotient(workers_, rows);
      if (rows * cuts < enough) return;
      in_period_ = cuts;
      period_ = row;
      workers_ = rows * in_period_;
      return;
    }
    const int together = quotient(rows + workers_ - 1, workers_);
    const int shares = quotient(rows + together - 1, together);
    if (32 * rows < 31 * together * shares || shares < enough) return;
    in_period_ = 1;
    period_ = together * row;
    workers_ = shares;
  }

  KGEN_DEVICE int place_of(int worker) const {
    if (worker >= workers_) return length_;
    const int period = in_period_ == 1 ? worker : in_period_ == workers_ ? 0 : quotient(worker, in_period_);
    const int number = worker - period * in_period_;
    return period * period_ + number * share_ + (number < larger_ ? number : larger_);
  }

  // The first worker whose share begins at a place or after it.
  KGEN_DEVICE int worker_from(int place) const {
    const int period = place < period_ ? 0 : quotient(place, period_);
    const int at = place - period * period_;
    const int turn = larger_ * (share_ + 1);
    const bool is_larger = at <= turn;
    const int share = is_larger ? share_ + 1 : share_;
    return period * in_period_ + (is_larger ? 0 : larger_) +
           quotient((is_larger ? at : at - turn) + share - 1, share);
  }

  // The tile of a row before which a cut falls, `at` places from the row's first.
  KGEN_DEVICE static int tile_of(int at, int tiles) {
    const int tile = at - Cost;
    if (tiles < 2 * Least) return 2 * tile < tiles ? 0 : tiles;
    return tile < Least ? 0 : tile > tiles - Least ? tiles : tile;
  }

  // Cuts repeat after `period_` places, in which are `in_period_` shares, the first `larger_` of them of
  // share_ + 1.
  int length_, workers_, period_, in_period_, share_, larger_;
};

}  // namespace kgen
