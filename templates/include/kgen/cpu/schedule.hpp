// How the work of a batch of rows of different lengths is laid on a line and cut into shares.
//
// The line runs over sequences, the parts of a sequence, chunks of KV heads and tiles of tokens.
// A unit is one tile of one chunk, so equal stretches of the line read equally many KV bytes. A
// part without tokens still counts as one unit: somebody has to write its result.
#pragma once

#include "kgen/cpu/base.hpp"

namespace kgen {

class Line {
 public:
  /// part: tokens in a part of a row; tile: tokens in a tile; chunks: chunks of KV heads.
  Line(const int32_t* lengths, int64_t rows, int64_t part, int64_t tile, int64_t chunks)
      : lengths_(lengths), rows_(rows), part_(part), tile_(tile), chunks_(chunks) {}

  /// A place on the line, in the middle of (seq, part, chunk) where tile > 0.
  struct Place {
    int64_t seq, part, chunk, tile;
    int64_t begin, end;  // tokens of the part
    int64_t tiles;       // units of (seq, part, chunk)
    int64_t unit;
  };

  int64_t units() const {
    int64_t total = 0;
    for (int64_t seq = 0; seq < rows_; ++seq) total += units_of(seq);
    return total;
  }

  int64_t parts(int64_t seq) const { return max<int64_t>(1, ceil_div(lengths_[seq], part_)); }

  /// The first unit at or after `unit` in which a chunk begins.
  int64_t start_of_chunk(int64_t unit) const {
    if (unit >= units()) return unit;
    const Place place = at(unit);
    return place.tile > 0 ? unit - place.tile + place.tiles : unit;
  }

  /// The place of a unit; `unit` must be on the line.
  Place at(int64_t unit) const {
    Place place{};
    place.unit = unit;
    while (unit >= units_of(place.seq)) unit -= units_of(place.seq++);
    const int64_t whole = chunks_ * tiles_of(part_);
    place.part = min(unit / whole, parts(place.seq) - 1);
    unit -= place.part * whole;
    enter(place);
    place.chunk = unit / place.tiles;
    place.tile = unit % place.tiles;
    return place;
  }

  /// Moves on to the start of the next chunk. Past the end of the line only `unit` is meaningful.
  void next(Place& place) const {
    place.unit += place.tiles - place.tile;
    place.tile = 0;
    if (++place.chunk < chunks_) return;
    place.chunk = 0;
    if (++place.part == parts(place.seq)) {
      place.part = 0;
      if (++place.seq == rows_) return;
    }
    enter(place);
  }

 private:
  int64_t tiles_of(int64_t tokens) const { return max<int64_t>(1, ceil_div(tokens, tile_)); }

  int64_t units_of(int64_t seq) const {
    const int64_t last = parts(seq) - 1;
    return chunks_ * (last * tiles_of(part_) + tiles_of(lengths_[seq] - last * part_));
  }

  void enter(Place& place) const {
    place.begin = place.part * part_;
    place.end = min<int64_t>(lengths_[place.seq], place.begin + part_);
    place.tiles = tiles_of(place.end - place.begin);
  }

  const int32_t* lengths_;
  int64_t rows_, part_, tile_, chunks_;
};

}  // namespace kgen
