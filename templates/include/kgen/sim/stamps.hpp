// Who touched device memory: stamps of accesses.
#pragma once

#include "kgen/sim/order.hpp"

namespace kgen::sim {

// A thread between one barrier or release and the next.
struct Stamp {
  Access access;
  uint32_t block;     // its number in the grid
  uint32_t releases;  // of the thread before it
  bool atomic;

  static Stamp of_this(uint32_t releases) {
    return {this_access(), static_cast<uint32_t>(machine().number), releases, false};
  }
};

inline bool same(const Stamp& a, const Stamp& b) {
  return a.block == b.block && a.releases == b.releases && a.access.epoch == b.access.epoch &&
         a.access.order == b.access.order && a.access.time == b.access.time;
}

// The stamps of a launch by their numbers; 0 is of nobody.
class Stamps {
 public:
  void release() {
    all_.release();
    newest_.release();
  }

  const Stamp& operator[](uint32_t number) { return all_[number]; }

  // That of the running thread, after so many releases.
  uint32_t now(uint32_t releases) {
    if (newest_.size() == 0) newest_.resize(machine().threads());
    if (all_.size() == 0) all_.push({});
    uint32_t& newest = newest_[machine().current];
    const Stamp now = Stamp::of_this(releases);
    if (newest == 0 || !same(all_[newest], now)) newest = add(now);
    return newest;
  }

  // The same of an access that is atomic.
  uint32_t atomic(uint32_t now) {
    Stamp stamp = all_[now];
    stamp.atomic = true;
    return add(stamp);
  }

  bool same_block(uint32_t a, uint32_t b) { return all_[a].block == all_[b].block; }
  bool same_thread(uint32_t a, uint32_t b) {
    return same_block(a, b) && all_[a].access.thread == all_[b].access.thread;
  }

 private:
  uint32_t add(const Stamp& stamp) {
    all_.push(stamp);
    return static_cast<uint32_t>(all_.size()) - 1;
  }

  Array<Stamp> all_;
  Array<uint32_t> newest_;  // of each thread
};

}  // namespace kgen::sim
