// What each thread of a block knows of the others' accesses of shared memory, where it is handed over by more
// than barriers of the block and of waves: vector clocks.
#pragma once

#include "kgen/sim/support.hpp"

namespace kgen::sim {

constexpr int kMostLandings = 32;  // of a block

// What a giver of knowledge leaves for those that take it.
using Knowledge = Array<uint32_t>;

// A thread's time grows as it gives: who takes what it gave knows all of its accesses up to then, and what it
// knew. The copy engine writes for a landing, by itself: behind the threads each landing has a clock, its
// rounds.
class Clocks {
 public:
  bool kept = false;  // since something that gives was made in this block

  void forget() { kept = false; }

  void keep(int threads) {
    if (kept) return;
    kept = true;
    threads_ = threads;
    width_ = threads + kMostLandings;
    table_.resize(static_cast<size_t>(threads) * width_);
    memset(table_.begin(), 0, table_.size() * sizeof(uint32_t));
    for (int i = 0; i < threads; ++i) row(i)[i] = 1;
  }

  uint32_t now(int thread) { return kept ? row(thread)[thread] : 1; }

  // Whether `thread` knows what `other` did at `time`.
  bool knows(int thread, int other, uint32_t time) { return kept && row(thread)[other] >= time; }

  int of_landing(int landing) const { return threads_ + landing; }

  // `thread` has waited until so many rounds of a landing were over.
  void learn(int thread, int landing, uint32_t rounds) {
    uint32_t& known = row(thread)[of_landing(landing)];
    if (known < rounds) known = rounds;
  }

  void give(int thread, Knowledge& to) {
    to.resize(width_);
    join(to.begin(), row(thread));
    ++row(thread)[thread];
  }

  void take(int thread, Knowledge& from) {
    if (from.size() != 0) join(row(thread), from.begin());
  }

  // Threads first .. last - 1 tell each other all they know.
  void share(int first, int last) {
    if (!kept) return;
    all_.clear();
    for (int i = first; i < last; ++i) give(i, all_);
    for (int i = first; i < last; ++i) take(i, all_);
  }

 private:
  uint32_t* row(int thread) { return table_.begin() + static_cast<size_t>(thread) * width_; }

  void join(uint32_t* to, const uint32_t* from) const {
    for (int i = 0; i < width_; ++i) to[i] = to[i] < from[i] ? from[i] : to[i];
  }

  int threads_ = 0, width_ = 0;
  Array<uint32_t> table_;
  Knowledge all_;
};

inline Clocks the_clocks;

inline Clocks& clocks() { return the_clocks; }

}  // namespace kgen::sim
