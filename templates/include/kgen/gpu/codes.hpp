// Rows of codes that come into the shared array wide, a piece of kCodes elements at a time. A piece may be
// wide already, in a memory of its own.
//
//   Pieces<T, Code, Count> pieces                  Count pieces of each thread wait in its registers
//   ParkedPieces<T, Code, Count> pieces(...)       the same in its part of the shared array
//   pieces.fetch(i, codes, wide, coded, word, dim) ask for piece i, of a row in either memory
//   pieces.wait()                                  all of them are there
//   pieces.land(i, to, at, coded)                  piece i goes wide to element `at` of an array
#pragma once

#include "kgen/gpu/fp8.hpp"
#include "kgen/gpu/stage.hpp"

namespace kgen {

constexpr int kCodes = 16;  // in 16 bytes

// The wide elements of a piece, in two halves of 16 bytes.
template <typename T>
struct Piece {
  Vec<T, kCodes / 2> low, high;

  KGEN_DEVICE void store(const LdsArray<T>& to, int at, Where where = here()) const {
    to.template store<kCodes / 2>(at, low, where);
    to.template store<kCodes / 2>(at + kCodes / 2, high, where);
  }
};

template <typename T, typename Code>
KGEN_DEVICE Piece<T> widened(const Vec<Code, kCodes>& codes) {
  return bits::cast<Piece<T>>(widen<T>(codes));
}

template <typename T, typename Code, int Count>
class Pieces {
 public:
  KGEN_DEVICE void fetch(int i, const Rows<Code>& codes, const Rows<T>& wide, bool coded, int64_t word,
                         int dim, Where where = here()) {
    auto low = splat<uint32_t, 4>(0), high = low;
    if (coded) {
      low = bits::cast<Words>(codes.template load<kCodes>(word, dim, where));
    } else {
      low = bits::cast<Words>(wide.template load<kCodes / 2>(word, dim, where));
      high = bits::cast<Words>(wide.template load<kCodes / 2>(word, dim + kCodes / 2, where));
    }
    low_[i] = low;
    high_[i] = high;
  }

  KGEN_DEVICE void wait() const {}

  KGEN_DEVICE void land(int i, const LdsArray<T>& to, int at, bool coded, Where where = here()) const {
    Piece<T> piece;
    if (coded) {
      piece = widened<T>(bits::cast<Vec<Code, kCodes>>(low_[i]));
    } else {
      piece = {bits::cast<Vec<T, kCodes / 2>>(low_[i]), bits::cast<Vec<T, kCodes / 2>>(high_[i])};
    }
    piece.store(to, at, where);
  }

 private:
  // In whole words, so that a loop carries them in registers.
  using Words = Vec<uint32_t, 4>;

  Words low_[Count], high_[Count];
};

// `first` of the 16-byte slots is this thread's, and so is every `step`-th behind it; upper halves of wide
// pieces lie `upper` slots behind the lower ones. One thread's pieces may take turns in them.
template <typename T, typename Code, int Count>
class ParkedPieces {
 public:
  KGEN_DEVICE ParkedPieces(const LdsArray<Code>& codes, const LdsArray<T>& wide, int first, int step,
                           int upper)
      : codes_(codes), wide_(wide), first_(first), step_(step), upper_(upper) {}

  KGEN_DEVICE void fetch(int i, const Rows<Code>& codes, const Rows<T>& wide, bool coded, int64_t word,
                         int dim) const {
    if (coded) {
      copy_row(codes_, slot(i) * kCodes, codes, word, dim);
    } else {
      copy_row(wide_, slot(i) * (kCodes / 2), wide, word, dim);
      copy_row(wide_, (slot(i) + upper_) * (kCodes / 2), wide, word, dim + kCodes / 2);
    }
  }

  KGEN_DEVICE void wait() const { copies_wait(); }

  KGEN_DEVICE void land(int i, const LdsArray<T>& to, int at, bool coded, Where where = here()) const {
    Piece<T> piece;
    if (coded) {
      piece = widened<T>(codes_.template load<kCodes>(slot(i) * kCodes, where));
    } else {
      piece.low = wide_.template load<kCodes / 2>(slot(i) * (kCodes / 2), where);
      piece.high = wide_.template load<kCodes / 2>((slot(i) + upper_) * (kCodes / 2), where);
    }
    piece.store(to, at, where);
  }

 private:
  KGEN_DEVICE int slot(int i) const { return first_ + i * step_; }

  LdsArray<Code> codes_;
  LdsArray<T> wide_;
  int first_, step_, upper_;
};

}  // namespace kgen
