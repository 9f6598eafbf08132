// What threads of a block wait for beside their wave and their block: landings, which speakers and bytes make
// complete, and barriers that have a name. Both hand over what is known of shared memory.
#pragma once

#include "kgen/sim/clocks.hpp"

namespace kgen::sim {

// Rounds follow one another; who waits for one learns what was given up to its end.
struct Rounds {
  int over = 0;
  Knowledge gathered, given;

  void restart() {
    over = 0;
    gathered.clear();
    given.clear();
  }
  void gather(int thread) {
    if (clocks().kept) clocks().give(thread, gathered);
  }
  void end() {
    ++over;
    given.resize(gathered.size());
    for (size_t i = 0; i < gathered.size(); ++i) {
      if (given[i] < gathered[i]) given[i] = gathered[i];
    }
  }
};

// What boxes of one turn have come. A round is over once all speakers have spoken and nothing is due.
struct Landing {
  int byte, turn;  // of its word in shared memory; its number there
  int speakers, spoken;
  int64_t due;  // bytes
  Rounds rounds;

  void settle() {
    if (spoken < speakers || due != 0) return;
    spoken = 0;
    rounds.end();
  }
};

class LandingTable {
 public:
  void forget() { count_ = 0; }

  int index(const Landing& landing) const { return static_cast<int>(&landing - all_); }

  Landing* find(int byte) {
    for (int i = 0; i < count_; ++i) {
      if (all_[i].byte == byte) return all_ + i;
    }
    return nullptr;
  }

  // The landing at `byte`, new; none where there are too many.
  Landing* make(int byte, int turn, int speakers) {
    Landing* made = find(byte);
    if (made == nullptr && count_ < kMostLandings) made = all_ + count_++;
    if (made == nullptr) return nullptr;
    made->byte = byte;
    made->turn = turn;
    made->speakers = speakers;
    made->spoken = 0;
    made->due = 0;
    made->rounds.restart();
    return made;
  }

 private:
  Landing all_[kMostLandings];
  int count_ = 0;
};

// A barrier of `threads`, which need not be all of a block.
struct NamedBarrier {
  int threads, come;
  Rounds rounds;

  void restart() {
    threads = come = 0;
    rounds.restart();
  }
  void arrive(int thread) {
    rounds.gather(thread);
    if (++come < threads) return;
    come = 0;
    rounds.end();
  }
};

}  // namespace kgen::sim
