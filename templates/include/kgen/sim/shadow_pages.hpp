// What the simulator notes of each byte of device memory, by pages, for those that a launch touches.
#pragma once

#include "kgen/sim/support.hpp"

namespace kgen::sim {

// A word for each byte, of two kinds; absent where nothing is noted in the page.
struct ShadowPage {
  uintptr_t number;   // 0: none
  uint32_t* writes;   // the stamp of the last write, 0: none
  uint32_t* readers;  // the chain of stamps of the reads since
};

class ShadowPages {
 public:
  static constexpr int kBytes = 4096;

  ShadowPages() = default;
  ShadowPages(const ShadowPages&) = delete;
  ShadowPages& operator=(const ShadowPages&) = delete;
  ~ShadowPages() { clear(); }

  void clear() {
    for (ShadowPage& page : pages_) {
      free(page.writes);
      free(page.readers);
    }
    pages_.clear();
    used_ = 0;
  }

  // body(page, first byte in it, bytes, bytes before them) for each page that `bytes` bytes from `first` on
  // lie in, at most two.
  template <typename Body>
  void of(const void* first, int bytes, const Body& body) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(first);
    const int begin = static_cast<int>(at % kBytes);
    const int within = kBytes - begin < bytes ? kBytes - begin : bytes;
    body(page(at / kBytes), begin, within, 0);
    if (within < bytes) body(page(at / kBytes + 1), 0, bytes - within, within);
  }

  static uint32_t* cells() {
    auto* made = static_cast<uint32_t*>(calloc(kBytes, sizeof(uint32_t)));
    if (made == nullptr) out_of_memory("the shadow of device memory");
    return made;
  }

 private:
  ShadowPage& page(uintptr_t number) {
    ShadowPage& found = slot(number);
    if (found.number == number) return found;
    if (2 * ++used_ > pages_.size()) grow();
    ShadowPage& made = slot(number);
    made.number = number;
    return made;
  }

  ShadowPage& slot(uintptr_t number) {
    if (pages_.size() == 0) pages_.resize(size_t{1} << 8);
    const size_t mask = pages_.size() - 1;
    size_t i = (number * 0x9e3779b97f4a7c15ull >> 32) & mask;
    while (pages_[i].number != 0 && pages_[i].number != number) i = (i + 1) & mask;
    return pages_[i];
  }

  void grow() {
    Array<ShadowPage> old;
    for (const ShadowPage& page : pages_) {
      if (page.number != 0) old.push(page);
    }
    const size_t size = pages_.size() * 2;
    pages_.clear();
    pages_.resize(size);
    for (const ShadowPage& page : old) slot(page.number) = page;
  }

  Array<ShadowPage> pages_;  // by a hash of their numbers, a power of two
  size_t used_ = 0;
};

}  // namespace kgen::sim
