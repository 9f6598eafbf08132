// What orders two accesses of one block.
#pragma once

#include "kgen/sim/machine.hpp"

namespace kgen::sim {

inline Access access_of(int thread) {
  return {machine().epoch, machine().wave_of(thread).orders, clocks().now(thread), thread};
}
inline Access this_access() { return access_of(machine().current); }

inline bool same_wave(const Access& a, const Access& b) {
  return a.thread / kWaveLanes == b.thread / kWaveLanes;
}

// Whether something orders `past` before what its thread does `now`: both are that thread's, or a block_sync
// lies between them, or a wave_sync where both threads are of one wave, or the later knows of the earlier by
// what handed the memory over.
inline bool is_before(const Access& past, const Access& now) {
  if (past.epoch != now.epoch || past.thread == now.thread) return true;
  if (same_wave(past, now) && past.order < now.order) return true;
  return clocks().knows(now.thread, past.thread, past.time);
}

}  // namespace kgen::sim
