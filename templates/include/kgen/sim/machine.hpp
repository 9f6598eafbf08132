// One block at a time: its threads as fibres, its waves, its barrier. Everything runs in a fixed order, so
// a fault is found at the same place each time.
#pragma once

#include "kgen/sim/running.hpp"

namespace kgen::sim {

class Machine : public Running {
 public:
  void release() { stacks_.release(); }

  // Runs one block of `count` threads, each `body(data)`, to its end or its first fault.
  void run_block(int count, void (*body)(const void*), const void* data) {
    body_ = body;
    data_ = data;
    prepare(count);
    do {
      for (int first = 0; first < count && !fault.found; first += kWaveLanes) run_wave(first);
    } while (!fault.found && (pass_waiting() || (!stuck() && pass_barrier())));
    ++blocks_run;
  }

  // Landings: made, spoken for, landed and waited for. They are told by their word's place.
  void make_landing(int byte, int turn, int speakers, Where where) {
    clocks().keep(static_cast<int>(threads_.size()));
    if (landings_.make(byte, turn, speakers) == nullptr) {
      stop(where, "landing %d: there are at most %d", turn, kMostLandings);
    }
  }
  void speak(int byte, int64_t bytes, Where where) {
    Landing& at = landing(byte, where);
    if (at.spoken == at.speakers) stop(where, "landing %d: more than its %d speakers", at.turn, at.speakers);
    ++at.spoken;
    at.due += bytes;
    at.rounds.gather(current);
    at.settle();
  }
  void land(int byte, int64_t bytes, Where where) {
    Landing& at = landing(byte, where);
    at.due -= bytes;
    if (at.due < 0) stop(where, "landing %d: more bytes come than are expected", at.turn);
    at.settle();
  }
  void await_landing(int byte, int round, Where where) {
    Landing& at = landing(byte, where);
    threads_[current].landing = &at;
    threads_[current].round = round;
    // A chip tells odd rounds from even ones, and nothing else.
    if (at.rounds.over > round + 1 || at.rounds.over < round) {
      stop(where, "landing %d: round %d is waited for when %d are over", at.turn, round, at.rounds.over);
    }
    if (at.rounds.over <= round) wait(State::kAtLanding, "landings.wait", where);
    clocks().take(current, at.rounds.given);
    clocks().learn(current, landings_.index(at), at.rounds.over);
  }
  // Who writes what comes by a landing, and when: whoever has waited for that round knows of it.
  Access engine_access(int byte, Where where) {
    const Landing& at = landing(byte, where);
    return {epoch, 0, static_cast<uint32_t>(at.rounds.over) + 1, clocks().of_landing(landings_.index(at))};
  }
  bool is_engine(const Access& access) const { return access.thread >= static_cast<int>(threads_.size()); }

  // A barrier of so many threads.
  void meet(int name, int threads, const char* word, Where where) {
    clocks().keep(static_cast<int>(threads_.size()));
    threads_[current].name = name;
    threads_[current].round = named_[name].rounds.over;
    named_[name].threads = threads;
    named_[name].arrive(current);
    wait(State::kAtName, word, where);
    clocks().take(current, named_[name].rounds.given);
  }

  // What the running thread stored is there for products and the copy engine once it has told so.
  void tell_engine() { ++threads_[current].told; }
  uint32_t told(int thread) { return threads_[thread].told; }

  // The running thread has met its wave at a wave_sync.
  void share_in_wave() {
    Wave& met = wave();
    if (met.shared == met.syncs) return;
    met.shared = met.syncs;
    const int first = current / kWaveLanes * kWaveLanes;
    clocks().share(first, first + kWaveLanes);
  }

 private:
  static void thread_main();

  void prepare(int count) {
    stacks_.make(count);
    threads_.resize(count);
    waves_.resize((count + kWaveLanes - 1) / kWaveLanes);
    ++serial;
    first_epoch = ++epoch;
    clocks().forget();
    landings_.forget();
    for (NamedBarrier& each : named_) each.restart();
    for (int i = 0; i < count; ++i) {
      threads_[i].state = State::kReady;
      threads_[i].told = 0;
      start_fibre(threads_[i].fibre, stacks_.top(i), Stacks::kUsable, thread_main);
    }
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

  Landing& landing(int byte, Where where) {
    Landing* found = landings_.find(byte);
    if (found == nullptr) stop(where, "no landing was made at byte %d of LDS", byte);
    return *found;
  }

  bool is_over(const Thread& waiting) const {
    if (waiting.state == State::kAtLanding) return waiting.landing->rounds.over > waiting.round;
    return waiting.state == State::kAtName && named_[waiting.name].rounds.over > waiting.round;
  }

  // Lets threads go on whose landing or named barrier is over, and groups that have met.
  bool pass_waiting() {
    bool passed = false;
    const int count = static_cast<int>(threads_.size());
    for (Thread& each : threads_) {
      if (!is_over(each)) continue;
      each.state = State::kReady;
      passed = true;
    }
    for (int first = 0; first + kGroupThreads <= count && first < kMostGroups * kGroupThreads;
         first += kGroupThreads) {
      if (!all_wait(State::kAtGroup, first, first + kGroupThreads)) continue;
      for (int i = first; i < first + kGroupThreads; ++i) threads_[i].state = State::kReady;
      ++group_meetings[first / kGroupThreads];
      passed = true;
    }
    return passed;
  }

  // A fault where some wait for what will never be.
  bool stuck() {
    constexpr State kWaits[] = {State::kAtLanding, State::kAtName, State::kAtGroup, State::kAtWave};
    for (const State state : kWaits) {
      for (int i = 0; i < static_cast<int>(threads_.size()); ++i) {
        if (threads_[i].state == state) return never(i);
      }
    }
    return false;
  }

  bool never(int waiting) {
    const Thread& thread = threads_[waiting];
    if (thread.state == State::kAtGroup || thread.state == State::kAtWave) {
      const int size = thread.state == State::kAtGroup ? kGroupThreads : kWaveLanes;
      int other = waiting / size * size;
      while (waits_with(threads_[other], thread.state, thread)) ++other;
      diverged(waiting, other);
      return true;
    }
    begin_fault(waiting, thread.where);
    if (thread.state == State::kAtLanding) {
      const Landing& at = *thread.landing;
      fault.message.add("landing %d never is over: %d of %d have spoken, %d bytes are due", at.turn,
                        at.spoken, at.speakers, static_cast<int>(at.due));
    } else {
      const NamedBarrier& at = named_[thread.name];
      fault.message.add("%s never is over: %d of %d threads have come", thread.word, at.come, at.threads);
    }
    return true;
  }

  bool pass_barrier() {
    if (fault.found) return false;
    if (!pass(State::kAtBlock, 0, static_cast<int>(threads_.size()))) return false;
    ++epoch;
    return true;
  }

  // Lets threads first .. last - 1 go on if all of them wait in this state at one word. False if none
  // does, or others may come yet; a fault if they differ.
  bool pass(State state, int first, int last) {
    int waiting = first;
    while (waiting < last && threads_[waiting].state != state) ++waiting;
    if (waiting == last) return false;
    for (int i = first; i < last; ++i) {
      if (waits_with(threads_[i], state, threads_[waiting])) continue;
      return !may_go_on(threads_[i]) && diverged(waiting, i);
    }
    for (int i = first; i < last; ++i) threads_[i].state = State::kReady;
    if (state == State::kAtWave) ++waves_[first / kWaveLanes].syncs;
    return true;
  }

  bool all_wait(State state, int first, int last) {
    for (int i = first; i < last; ++i) {
      if (!waits_with(threads_[i], state, threads_[first])) return false;
    }
    return true;
  }

  void (*body_)(const void*) = nullptr;
  const void* data_ = nullptr;
  LandingTable landings_;
  NamedBarrier named_[kMostGroups];
};

inline Machine the_machine;

inline Machine& machine() { return the_machine; }

inline void Machine::thread_main() {
  machine().body_(machine().data_);
  machine().wait(State::kDone, "the end of the kernel", {});
}

}  // namespace kgen::sim
