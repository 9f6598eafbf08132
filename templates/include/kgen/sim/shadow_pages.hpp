// What the simulator notes of device memory, by pages, for those that a launch touches.
#pragma once

#include "kgen/sim/support.hpp"

namespace kgen::sim {

// Notes of two kinds, one of each for a cell of 2^shift bytes: as many as what touches the page is made of.
// Either is absent where the page has none.
struct ShadowPage {
  static constexpr int kBytes = 4096;

  uintptr_t number;  // 0: none
  int shift;
  uint32_t* writes;   // the stamp of the last write, 0: none
  uint32_t* readers;  // the chain of stamps of the reads since

  uint32_t* cells() const {
    auto* made = static_cast<uint32_t*>(calloc(kBytes >> shift, sizeof(uint32_t)));
    if (made == nullptr) out_of_memory("the shadow of device memory");
    return made;
  }

  void drop() {
    free(writes);
    free(readers);
  }

  // Cells that are no larger than 2^to bytes.
  void refine(int to) {
    ShadowPage finer = {number, to, nullptr, nullptr};
    if (writes != nullptr) finer.writes = finer.cells_of(writes, shift - to);
    if (readers != nullptr) finer.readers = finer.cells_of(readers, shift - to);
    drop();
    *this = finer;
  }

 private:
  uint32_t* cells_of(const uint32_t* coarse, int apart) const {
    uint32_t* made = cells();
    for (int i = 0; i < kBytes >> shift; ++i) made[i] = coarse[i >> apart];
    return made;
  }
};

// What an access touches of a page: cells from `first` to before `last`, after so many of its bytes.
struct ShadowPart {
  ShadowPage& page;
  int first, last, before;

  // Of a cell, its first byte as the access counts.
  int byte(int cell) const { return before + ((cell - first) << page.shift); }
};

class ShadowPages {
 public:
  ShadowPages() = default;
  ~ShadowPages() { release(); }

  void release() {
    for (ShadowPage& page : pages_) page.drop();
    pages_.release();
    used_ = 0;
  }

  // body(part) for each page that `bytes` bytes from `first` on lie in, at most two.
  template <typename Body>
  void of(const void* first, int bytes, const Body& body) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(first);
    const int shift = __builtin_ctzll(at | bytes | 16);
    const int begin = static_cast<int>(at % ShadowPage::kBytes);
    const int room = ShadowPage::kBytes - begin;
    const int within = room < bytes ? room : bytes;
    body(part(at / ShadowPage::kBytes, shift, begin, within, 0));
    if (within < bytes) body(part(at / ShadowPage::kBytes + 1, shift, 0, bytes - within, within));
  }

 private:
  ShadowPart part(uintptr_t number, int shift, int begin, int bytes, int before) {
    ShadowPage& at = page(number, shift);
    if (at.shift > shift) at.refine(shift);
    return {at, begin >> at.shift, (begin + bytes) >> at.shift, before};
  }

  ShadowPage& page(uintptr_t number, int shift) {
    ShadowPage& found = slot(number);
    if (found.number == number) return found;
    if (2 * ++used_ > pages_.size()) grow();
    ShadowPage& made = slot(number);
    made.number = number;
    made.shift = shift;
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
