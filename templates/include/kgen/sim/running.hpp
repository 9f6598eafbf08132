// What runs: the threads of a block on stacks of their own, where each waits, and the first fault.
#pragma once

#include "kgen/sim/stacks.hpp"
#include "kgen/sim/threads.hpp"

namespace kgen::sim {

class Running {
 public:
  const char* kernel = "";
  Dim grid{1, 1, 1};
  Dim block{0, 0, 0};        // the one that runs
  int64_t number = 0;        // its own
  int current = 0;           // the thread that runs
  uint32_t serial = 0;       // of the block, over all launches
  uint32_t epoch = 0;        // of barriers, likewise: accesses in one epoch are not ordered by a barrier
  uint32_t first_epoch = 0;  // of the block
  uint32_t turn = 0;         // of waves, likewise: from one meeting of a wave to its next
  uint32_t group_meetings[kMostGroups] = {};  // likewise, of each group
  int64_t blocks_run = 0;
  Fault fault{};

  int threads() { return static_cast<int>(threads_.size()); }
  int lane() const { return current % kWaveLanes; }
  Wave& wave() { return wave_of(current); }
  Wave& wave_of(int thread) { return waves_[thread / kWaveLanes]; }

  // Where in the grid a block is, by its number.
  Dim block_of(int64_t i) const { return {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y}; }

  // The running thread waits for its wave or its block, at `word`.
  void wait(State state, const char* word, Where where) {
    Thread& thread = threads_[current];
    thread.state = state;
    thread.word = word;
    thread.where = where;
    switch_fibre(thread.fibre, scheduler_);
  }

  // Stops the kernel at the running thread: nothing of it runs any more.
  [[noreturn, gnu::format(printf, 3, 4)]] void stop(Where where, const char* format, ...) {
    begin_fault(current, where);
    va_list values;
    va_start(values, format);
    fault.message.add(format, values);
    va_end(values);
    switch_fibre(threads_[current].fibre, scheduler_);
    __builtin_unreachable();
  }

 protected:
  bool diverged(int at, int elsewhere) {
    const Thread& other = threads_[elsewhere];
    begin_fault(at, threads_[at].where);
    fault.message.add("divergent %s: thread %d is at %s", threads_[at].word, elsewhere, other.word);
    if (other.state != State::kDone) fault.message.add(", line %d", other.where.line);
    return false;
  }

  void begin_fault(int thread, Where where) {
    fault = {true, number, thread, where.line, {}};
    fault.message.add("%s:%d: %s, block (%d, %d, %d), thread %d (wave %d, lane %d): ", where.file, where.line,
                      kernel, static_cast<int>(block.x), static_cast<int>(block.y), static_cast<int>(block.z),
                      thread, thread / kWaveLanes, thread % kWaveLanes);
  }

  Array<Thread> threads_;
  Array<Wave> waves_;
  Fibre scheduler_{};
  Stacks stacks_;
};

}  // namespace kgen::sim
