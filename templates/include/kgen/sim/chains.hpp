// Lists that share their ends, so that what many threads note alike is noted once.
#pragma once

#include "kgen/sim/support.hpp"

namespace kgen::sim {

// A chain is the number of its newest link, 0 where it has none. Links never change.
class Chains {
 public:
  struct Link {
    uint32_t item, before;
  };

  void release() {
    links_.release();
    known_.release();
  }

  // The chain of `item` and what is in `before`.
  uint32_t add(uint32_t item, uint32_t before) {
    if (links_.size() == 0) start();
    uint32_t& slot = known_[(item * 0x9e3779b9u ^ before * 0x85ebca6bu) >> (32 - kSlotBits)];
    const Link& known = links_[slot];
    if (slot != 0 && known.item == item && known.before == before) return slot;
    slot = static_cast<uint32_t>(links_.size());
    links_.push({item, before});
    return slot;
  }

  const Link& operator[](uint32_t chain) { return links_[chain]; }

  bool has(uint32_t chain, uint32_t item) {
    for (; chain != 0; chain = links_[chain].before) {
      if (links_[chain].item == item) return true;
    }
    return false;
  }

 private:
  static constexpr int kSlotBits = 12;

  void start() {
    links_.push({});
    known_.resize(size_t{1} << kSlotBits);
  }

  Array<Link> links_;
  Array<uint32_t> known_;  // the newest link of each hash
};

}  // namespace kgen::sim
