// One block at a time: its threads as fibres, its waves, its barrier. Everything runs in a fixed order, so
// a fault is found at the same place each time.
#pragma once

#include "kgen/sim/fibre.hpp"

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
constexpr int kShownBytes = 64;

struct Dim {
  int64_t x, y, z;
};

enum class State { kReady, kAtWave, kAtBlock, kAtLanding, kDone };

struct Thread {
  Fibre fibre;
  State state;
  Where where;         // of the wait
  const char* word;    // of the dialect that waits
  int landing, round;  // what it waits for at kAtLanding
};

// What boxes of one turn have come. A round is over once all speakers have spoken and nothing is due.
struct Landing {
  int speakers, spoken, rounds;
  int64_t due;  // bytes
};

// What the lanes of a wave show each other. Two sets in turn: a lane may show its next value before the
// others have read this one.
struct Wave {
  unsigned char shown[2][kWaveLanes][kShownBytes];
  uint32_t syncs;   // times the wave has met: which set is in use
  uint32_t orders;  // wave_syncs so far: what orders LDS accesses
};

struct Fault {
  bool found;
  int64_t block, thread, line;
  Text message;
};

class Machine {
 public:
  const char* kernel = "";
  Dim grid{1, 1, 1};
  Dim block{0, 0, 0};   // the one that runs
  int current = 0;      // the thread that runs
  uint32_t serial = 0;  // of the block, over all launches
  uint32_t epoch = 0;   // of barriers, likewise: accesses in one epoch are not ordered by a barrier
  uint32_t turn = 0;    // of waves, likewise: from one meeting of a wave to its next
  int64_t blocks_run = 0;
  Fault fault{};

  ~Machine() { release(); }

  // Gives the stacks back: with their guards they are two mappings a thread, of which a process has only so
  // many for all the kernels it has loaded.
  void release() {
    if (stacks_ != nullptr) munmap(stacks_, capacity_ * kStackBytes);
    stacks_ = nullptr;
    capacity_ = 0;
  }

  int lane() const { return current % kWaveLanes; }
  Wave& wave() { return waves_[current / kWaveLanes]; }

  // Runs one block of `count` threads, each `body(data)`, to its end or its first fault.
  void run_block(int count, void (*body)(const void*), const void* data) {
    body_ = body;
    data_ = data;
    prepare(count);
    do {
      for (int first = 0; first < count && !fault.found; first += kWaveLanes) run_wave(first);
    } while (!fault.found && (pass_landings() || pass_barrier()));
    ++blocks_run;
  }

  // The running thread waits for its wave or its block, at `word`.
  void wait(State state, const char* word, Where where) {
    Thread& thread = threads_[current];
    thread.state = state;
    thread.word = word;
    thread.where = where;
    switch_fibre(thread.fibre, scheduler_);
  }

  // Landings: made, spoken for, landed and waited for.
  void make_landing(int turn, int speakers, Where where) { landing(turn, where) = {speakers, 0, 0, 0}; }
  void speak(int turn, int64_t bytes, Where where) {
    Landing& at = landing(turn, where);
    if (at.spoken == at.speakers) stop(where, "landing %d: more than its %d speakers", turn, at.speakers);
    ++at.spoken;
    at.due += bytes;
    settle(at);
  }
  void land(int turn, int64_t bytes, Where where) {
    Landing& at = landing(turn, where);
    at.due -= bytes;
    if (at.due < 0) stop(where, "landing %d: more bytes come than are expected", turn);
    settle(at);
  }
  void await_landing(int turn, int round, Where where) {
    Thread& thread = threads_[current];
    thread.landing = turn;
    thread.round = round;
    const int over = landing(turn, where).rounds;
    if (over > round + 1) {  // a chip tells odd rounds from even ones, and nothing else
      stop(where, "landing %d: round %d is waited for when %d are over", turn, round, over);
    }
    if (over <= round) wait(State::kAtLanding, "landings.wait", where);
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

 private:
  static constexpr size_t kStackBytes = 256 * 1024;
  static constexpr size_t kGuardBytes = 4096;
  static constexpr int kLandings = 8;

  static void thread_main();

  void prepare(int count) {
    if (count > capacity_) map_stacks(count);
    threads_.resize(count);
    waves_.resize((count + kWaveLanes - 1) / kWaveLanes);
    ++serial;
    ++epoch;
    for (Landing& each : landings_) each = {};
    for (int i = 0; i < count; ++i) {
      threads_[i].state = State::kReady;
      start_fibre(threads_[i].fibre, stacks_ + (i + 1) * kStackBytes, kStackBytes - kGuardBytes, thread_main);
    }
  }

  // Address space only, until it is used; the lowest page of each stack is a guard.
  void map_stacks(int count) {
    release();
    void* memory =
        mmap(nullptr, count * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) out_of_memory("the stacks of a block");
    stacks_ = static_cast<char*>(memory);
    capacity_ = count;
    for (int i = 0; i < count; ++i) mprotect(stacks_ + i * kStackBytes, kGuardBytes, PROT_NONE);
  }

  // Runs a wave until every lane waits at the block's barrier or has finished.
  void run_wave(int first) {
    const int count = static_cast<int>(threads_.size());
    const int last = first + kWaveLanes < count ? first + kWaveLanes : count;
    do {
      ++turn;
      for (int i = first; i < last && !fault.found; ++i) {
        if (threads_[i].state != State::kReady) continue;
        current = i;
        switch_fibre(scheduler_, threads_[i].fibre);
      }
    } while (!fault.found && pass(State::kAtWave, first, last));
  }

  Landing& landing(int turn, Where where) {
    if (turn < 0 || turn >= kLandings) stop(where, "landing %d: there are at most %d", turn, kLandings);
    return landings_[turn];
  }

  static void settle(Landing& at) {
    if (at.spoken < at.speakers || at.due != 0) return;
    at.spoken = 0;
    ++at.rounds;
  }

  // Lets threads go on whose landing is over. Where some wait for one that will never be, a fault.
  bool pass_landings() {
    int waiting = -1;
    bool passed = false;
    for (int i = 0; i < static_cast<int>(threads_.size()); ++i) {
      if (threads_[i].state != State::kAtLanding) continue;
      if (landings_[threads_[i].landing].rounds > threads_[i].round) {
        threads_[i].state = State::kReady;
        passed = true;
      } else if (waiting < 0) {
        waiting = i;
      }
    }
    if (passed || waiting < 0) return passed;
    const Landing& at = landings_[threads_[waiting].landing];
    begin_fault(waiting, threads_[waiting].where);
    fault.message.add("landing %d never is over: %d of %d have spoken, %d bytes are due",
                      threads_[waiting].landing, at.spoken, at.speakers, static_cast<int>(at.due));
    return false;
  }

  bool pass_barrier() {
    if (fault.found) return false;
    if (!pass(State::kAtBlock, 0, static_cast<int>(threads_.size()))) return false;
    ++epoch;
    return true;
  }

  // Lets threads first .. last - 1 go on if all of them wait in this state at one word. False if none
  // does; a fault if they differ.
  bool pass(State state, int first, int last) {
    int waiting = first;
    while (waiting < last && threads_[waiting].state != state) ++waiting;
    if (waiting == last) return false;
    for (int i = first; i < last; ++i) {
      if (threads_[i].state == state && same_wait(threads_[i], threads_[waiting])) continue;
      return diverged(waiting, i);
    }
    for (int i = first; i < last; ++i) threads_[i].state = State::kReady;
    if (state == State::kAtWave) ++waves_[first / kWaveLanes].syncs;
    return true;
  }

  static bool same_wait(const Thread& a, const Thread& b) {
    return a.where.line == b.where.line && strcmp(a.word, b.word) == 0 &&
           strcmp(a.where.file, b.where.file) == 0;
  }

  bool diverged(int at, int elsewhere) {
    const Thread& other = threads_[elsewhere];
    begin_fault(at, threads_[at].where);
    fault.message.add("divergent %s: thread %d is at %s", threads_[at].word, elsewhere, other.word);
    if (other.state != State::kDone) fault.message.add(", line %d", other.where.line);
    return false;
  }

  void begin_fault(int thread, Where where) {
    fault = {true, block.x + grid.x * (block.y + grid.y * block.z), thread, where.line, {}};
    fault.message.add("%s:%d: %s, block (%d, %d, %d), thread %d (wave %d, lane %d): ", where.file, where.line,
                      kernel, static_cast<int>(block.x), static_cast<int>(block.y), static_cast<int>(block.z),
                      thread, thread / kWaveLanes, thread % kWaveLanes);
  }

  void (*body_)(const void*) = nullptr;
  const void* data_ = nullptr;
  Array<Thread> threads_;
  Array<Wave> waves_;
  Landing landings_[kLandings] = {};
  Fibre scheduler_{};
  char* stacks_ = nullptr;
  int capacity_ = 0;  // threads that have a stack
};

inline Machine the_machine;

inline Machine& machine() { return the_machine; }

inline void Machine::thread_main() {
  machine().body_(machine().data_);
  machine().wait(State::kDone, "the end of the kernel", {});
}

}  // namespace kgen::sim
