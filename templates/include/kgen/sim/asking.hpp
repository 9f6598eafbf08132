// What a thread of a group has asked for: batches of products, and the registers that are theirs meanwhile.
#pragma once

#include "kgen/sim/platform.hpp"

#pragma GCC visibility push(hidden)

namespace kgen::sim {

// A register operand that products read: where it is, and what it held when they began.
struct Kept {
  const void* at;
  uint32_t batch;
  unsigned char bytes[16];
};

// What a thread has asked for.
struct Asking {
  static constexpr int kMost = 64;

  uint32_t serial;     // of the block
  uint32_t committed;  // batches
  uint32_t over;       // of them, waited for
  uint32_t begun;      // products_begins so far
  uint32_t votes;      // group_anys so far
  bool ready;          // whether there was one since the last batch
  int count;
  Kept kept[kMost];
};

inline Array<Asking> the_askings;

inline Asking& asking() {
  const size_t thread = machine().current;
  if (the_askings.size() <= thread) the_askings.resize(thread + 1);
  Asking& it = the_askings[thread];
  if (it.serial != machine().serial) {
    it.serial = machine().serial;
    it.committed = it.over = it.begun = it.votes = 0;
    it.count = 0;
    it.ready = false;
  }
  return it;
}

inline int group_id() { return machine().current / kGroupThreads; }

template <typename T>
void begin(const Vec<T, 8>& operand, Where where) {
  Asking& it = asking();
  int i = 0;
  while (i < it.count && it.kept[i].at != &operand) ++i;
  if (i == Asking::kMost) machine().stop(where, "products_begin: more than %d operands are kept", i);
  if (i == it.count) ++it.count;
  it.kept[i].at = &operand;
  it.kept[i].batch = it.committed;
  memcpy(it.kept[i].bytes, &operand, sizeof(operand));
}
template <typename T, int Count>
void begin(const Vec<T, 8> (&operands)[Count], Where where) {
  for (const auto& operand : operands) begin(operand, where);
}
inline void begin_products() {
  Asking& it = asking();
  ++it.begun;
  it.ready = true;
}

// Until all but the last `left` batches are over: then their operands may change, and have not before.
inline void end_products(uint32_t left, Where where) {
  machine().wait(State::kAtWave, "products_wait", where);
  Asking& it = asking();
  for (; it.over + left < it.committed; ++it.over) {
    reading().end(group_id(), it.over, machine().current % kGroupThreads / kWaveLanes);
  }
  int kept = 0;
  for (int i = 0; i < it.count; ++i) {
    if (it.kept[i].batch >= it.over) {
      it.kept[kept++] = it.kept[i];
    } else if (memcmp(it.kept[i].bytes, it.kept[i].at, sizeof(it.kept[i].bytes)) != 0) {
      machine().stop(where, "products_wait: an operand has changed while a product was under way");
    }
  }
  it.count = kept;
}

}  // namespace kgen::sim

namespace kgen {

template <int N>
class GroupSums {
 public:
  static_assert(N % 8 == 0 && N <= 256, "a product has at most 256 columns");

  GroupSums() = default;
  GroupSums(const GroupSums&) = delete;  // registers of products stay where they are
  GroupSums& operator=(const GroupSums&) = delete;

  float& at(int e, Where where = here()) {
    if (under_way_) sim::machine().stop(where, "sums are used while a product is under way");
    begun_ = 0;
    return values_[e];
  }

  void begin() { begun_ = sim::asking().begun; }
  void add(const float (&d)[64][256], bool more, Where where) {
    const int row = thread_id() % kGroup / kWave * 16;
    if (!under_way_ && begun_ != sim::asking().begun) {
      sim::machine().stop(where, "multiply: its sums are not among what products_begin was told");
    }
    for (int e = 0; e < N / 2; ++e) {
      const float product = d[row + sums_row(lane_id(), e)][sums_column(lane_id(), e)];
      values_[e] = more ? values_[e] + product : product;
    }
    under_way_ = true;
    batch_ = sim::asking().committed;
  }
  void end(Where where) {
    if (under_way_ && batch_ >= sim::asking().over) {
      sim::machine().stop(where, "products_wait: a product of these sums may be under way still");
    }
    under_way_ = false;
  }

 private:
  float values_[N / 2];
  bool under_way_ = false;
  uint32_t begun_ = 0, batch_ = 0;
};

}  // namespace kgen

#pragma GCC visibility pop
