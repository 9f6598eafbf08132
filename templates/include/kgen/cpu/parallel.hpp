// Work sharing over the OpenMP runtime that the process already has, reached by address.
//
// A launch is cut into `shares` before it starts. A thread runs the share of its own number and
// then whatever nobody has taken, so that all shares are done however many threads the runtime
// really gives (one, inside another parallel region), and so that the serial case is no case.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "kgen/cpu/abi.hpp"

namespace kgen {

using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
using ThreadNum = int (*)();

template <class Body>
class Region {
 public:
  Region(const Body& body, int64_t shares, ThreadNum thread_num)
      : body_(body),
        shares_(shares),
        thread_num_(thread_num),
        taken_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(shares))) {}

  static void run(void* region) { static_cast<Region*>(region)->run(); }

  void run() {
    const int64_t own = thread_num_ ? thread_num_() : 0;
    for (int64_t i = 0; i < shares_; ++i) {
      const int64_t share = (own + i) % shares_;
      if (!taken_[share].exchange(true, std::memory_order_relaxed)) body_(share);
    }
  }

 private:
  const Body& body_;
  int64_t shares_;
  ThreadNum thread_num_;
  std::unique_ptr<std::atomic<bool>[]> taken_;
};

/// Calls body(share) once for every share in [0, shares), on at most num_threads threads.
template <class Args, class Body>
void parallel(const Args& a, int64_t shares, const Body& body) {
  const int64_t threads = a.num_threads < shares ? a.num_threads : shares;
  if (!a.parallel || threads <= 1) {
    for (int64_t share = 0; share < shares; ++share) body(share);
    return;
  }
  Region<Body> region(body, shares, reinterpret_cast<ThreadNum>(static_cast<intptr_t>(a.thread_num)));
  const auto gomp = reinterpret_cast<GompParallel>(static_cast<intptr_t>(a.parallel));
  gomp(&Region<Body>::run, &region, static_cast<unsigned>(threads), 0);
}

/// The part of `count` equal items that share `i` of `n` takes: [first(i), first(i + 1)).
inline int64_t first_of_share(int64_t count, int64_t i, int64_t n) {
  return count / n * i + (count % n < i ? count % n : i);
}

/// How many shares to cut `count` items of `cost` each into: one for every `worth` of cost, so
/// that a small call stays on one thread, and no more than there are threads.
inline int64_t shares_for(int64_t count, int64_t cost, int64_t worth, int64_t threads) {
  const int64_t wanted = (count * cost + worth - 1) / worth;
  return std::max<int64_t>(1, std::min({wanted, count, threads}));
}

}  // namespace kgen
