// Work sharing over the OpenMP runtime that the process already has, reached by address.
//
// A launch is cut into `shares` before it starts, and each thread that turns up takes the next one
// until none is left. So all shares are done however many threads the runtime really gives (one,
// inside another parallel region), a core that is slow or late does less, and what is computed
// depends on how the work was cut but never on who did it.
#pragma once

#include "kgen/cpu/abi.hpp"

namespace kgen {

using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

template <class Body>
struct Region {
  const Body& body;
  int64_t shares;
  int64_t next;

  static void run(void* region) {
    auto& self = *static_cast<Region*>(region);
    for (;;) {
      const int64_t share = __atomic_fetch_add(&self.next, 1, __ATOMIC_RELAXED);
      if (share >= self.shares) return;
      self.body(share);
    }
  }
};

/// Calls body(share) once for every share in [0, shares), on at most a.num_threads threads: serially
/// where the caller gave no runtime.
template <class Args, class Body>
void parallel(const Args& a, int64_t shares, const Body& body) {
  Region<Body> region{body, shares, 0};
  const int64_t threads = min(a.num_threads, shares);
  if (!a.parallel || threads <= 1) return Region<Body>::run(&region);
  const auto gomp = reinterpret_cast<GompParallel>(static_cast<intptr_t>(a.parallel));
  gomp(&Region<Body>::run, &region, static_cast<unsigned>(threads), 0);
}

/// Where share `i` of `n` begins when `count` items are shared out evenly; it ends where i + 1 begins.
inline int64_t first_of_share(int64_t count, int64_t i, int64_t n) {
  return count / n * i + min(count % n, i);
}

/// How many shares to cut `count` items of `cost` each into: one for every `worth` of cost, so
/// that a small call stays on one thread, and no more than there are threads.
inline int64_t shares_for(int64_t count, int64_t cost, int64_t worth, int64_t threads) {
  return max<int64_t>(1, min(ceil_div(count * cost, worth), min(count, threads)));
}

}  // namespace kgen
