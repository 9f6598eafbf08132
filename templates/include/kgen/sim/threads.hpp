// The threads of a block and its waves, as the machine that runs them sees them.
#pragma once

#include "kgen/sim/fibre.hpp"
#include "kgen/sim/landings.hpp"

namespace kgen {

// The line of a kernel that spoke a word of the dialect.
struct Where {
  const char* file;
  int line;
};

inline Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }

}  // namespace kgen

namespace kgen::sim {

constexpr int kWaveLanes = KGEN_WAVE;
constexpr int kGroupThreads = 4 * kWaveLanes;  // of a group of waves
constexpr int kMostGroups = 8;
constexpr int kShownBytes = 64;

struct Dim {
  int64_t x, y, z;
};

enum class State { kReady, kAtWave, kAtBlock, kAtLanding, kAtName, kAtGroup, kDone };

struct Thread {
  Fibre fibre;
  State state;
  Where where;       // of the wait
  const char* word;  // of the dialect that waits
  Landing* landing;  // what it waits for at kAtLanding,
  int name, round;   // at kAtName, and the round of it
  uint32_t told;     // engine_fences so far
};

// Who touched memory, and when.
struct Access {
  uint32_t epoch;
  uint32_t order;  // wave_syncs of its wave before it
  uint32_t time;   // of its thread's clock
  int thread;      // or, behind them, the landing that the copy engine writes for
};

// What the lanes of a wave show each other. Two sets in turn: a lane may show its next value before the
// others have read this one.
struct Wave {
  unsigned char shown[2][kWaveLanes][kShownBytes];
  uint32_t syncs;   // times the wave has met: which set is in use
  uint32_t orders;  // wave_syncs so far: what orders LDS accesses
  uint32_t shared;  // meetings up to the last that was a wave_sync
};

struct Fault {
  bool found;
  int64_t block, thread, line;
  Text message;
};

// Whether a thread that does not wait for its wave may come there yet.
inline bool may_go_on(const Thread& a) {
  return a.state == State::kAtLanding || a.state == State::kAtName || a.state == State::kAtGroup;
}

inline bool waits_with(const Thread& a, State state, const Thread& b) {
  return a.state == state && a.where.line == b.where.line && strcmp(a.word, b.word) == 0 &&
         strcmp(a.where.file, b.where.file) == 0;
}

}  // namespace kgen::sim
