// Device memory with a shadow that knows who touched each byte in the launch that runs: what finds races
// between threads of one block, and between blocks.
#pragma once

#include "kgen/sim/shadow_pages.hpp"
#include "kgen/sim/telling.hpp"

namespace kgen::sim {

// A tensor of the call by its name.
struct Tensor {
  const char* name;
  int64_t address;
};

// Bytes that an access touches, and the tensor it reaches them through: where that begins, and the size of
// its elements.
struct Touch {
  const void* at;
  int bytes;
  const void* tensor;
  int element;
};

// Two accesses of a byte, one of them a write, race unless something orders them: in a block what orders
// accesses of shared memory, and between blocks a release by the thread that was first, announced, and
// acquired by the other. Two additions do not race.
class Device {
 public:
  Array<Tensor> tensors;  // of the call

  void begin_launch() {
    forget();
    stamps_.push({});
  }
  void forget() {
    pages_.clear();
    stamps_.clear();
    current_.clear();
    readers_.clear();
    telling().forget();
  }

  void read(const Touch& touch, Where where) {
    const uint32_t now = stamp();
    pages_.of(touch.at, touch.bytes, [&](ShadowPage& page, int first, int bytes, int from) {
      if (page.writes != nullptr) {
        const int at = clash(page.writes + first, bytes, now);
        if (at >= 0) race("read after write", touch, from + at, page.writes[first + at], where);
      }
      note_read(page.readers, first, bytes, now);
    });
  }

  // What nothing may write in this launch, as it is read by other ways than writes take.
  void read_constant(const Touch& touch, const char* word, Where where) {
    pages_.of(touch.at, touch.bytes, [&](ShadowPage& page, int first, int bytes, int from) {
      for (int i = 0; i < bytes && page.writes != nullptr; ++i) {
        if (page.writes[first + i] != 0) constant(word, touch, from + i, page.writes[first + i], where);
      }
      note_read(page.readers, first, bytes, stamp());
    });
  }

  void write(const Touch& touch, Where where) {
    const uint32_t now = stamp();
    pages_.of(touch.at, touch.bytes, [&](ShadowPage& page, int first, int bytes, int from) {
      const int at = page.writes == nullptr ? -1 : clash(page.writes + first, bytes, now);
      if (at >= 0) race("write after write", touch, from + at, page.writes[first + at], where);
      check_readers(page, first, bytes, now, touch, from, where);
      note_write(page, first, bytes, now);
    });
  }

  // A word that is read and written at once. `adds`: a fetch_add, by which blocks tell each other.
  void atomic(const Touch& touch, bool adds, Where where) {
    const uint32_t now = stamp();
    pages_.of(touch.at, touch.bytes, [&](ShadowPage& page, int first, int bytes, int from) {
      const uint32_t past = page.writes == nullptr ? 0 : page.writes[first];
      if (past != 0 && !stamps_[past].atomic && !is_ordered(past, now)) {
        race("addition after write", touch, from, past, where);
      }
      check_readers(page, first, bytes, now, touch, from, where);
      stamps_.push(stamps_[now]);
      const uint32_t own = static_cast<uint32_t>(stamps_.size()) - 1;
      stamps_[own].atomic = true;
      note_write(page, first, bytes, own);
    });
    if (adds) telling().add(reinterpret_cast<uintptr_t>(touch.at));
  }

 private:
  // ---- stamps

  uint32_t stamp() {
    const size_t thread = machine().current;
    if (current_.size() <= thread) current_.resize(machine().threads());
    const Access access = this_access();
    const uint32_t block = static_cast<uint32_t>(machine().number), releases = telling().releases();
    const Stamp& last = stamps_[current_[thread]];
    const bool same = current_[thread] != 0 && last.block == block && last.releases == releases &&
                      last.access.epoch == access.epoch && last.access.order == access.order &&
                      last.access.time == access.time;
    if (same) return current_[thread];
    stamps_.push({access, block, releases, false});
    return current_[thread] = static_cast<uint32_t>(stamps_.size()) - 1;
  }

  bool is_ordered(uint32_t past, uint32_t now) {
    const Stamp &earlier = stamps_[past], &later = stamps_[now];
    return earlier.block == later.block ? is_before(earlier.access, later.access) : telling().knows(earlier);
  }

  // The first of some stamps that nothing orders before now, or -1.
  int clash(const uint32_t* stamps, int count, uint32_t now) {
    uint32_t known = 0;
    for (int i = 0; i < count; ++i) {
      if (stamps[i] == known || stamps[i] == 0) continue;
      if (!is_ordered(stamps[i], now)) return i;
      known = stamps[i];
    }
    return -1;
  }

  // ---- reads

  void note_read(uint32_t*& readers, int first, int bytes, uint32_t now) {
    if (readers == nullptr) readers = ShadowPages::cells();
    uint32_t before = ~0u, after = 0;
    for (int i = first; i < first + bytes; ++i) {
      if (readers[i] != before) {
        before = readers[i];
        after = with_reader(before, now);
      }
      readers[i] = after;
    }
  }

  uint32_t with_reader(uint32_t chain, uint32_t now) {
    if (chain == 0) return readers_.add(now, 0);
    const Chains::Link last = readers_[chain];
    if (last.item == now) return chain;
    if (!same_block(last.item, now)) return readers_.add(now, chain);
    if (same_thread(last.item, now)) return readers_.add(now, last.before);
    const bool two = last.before != 0 && same_block(readers_[last.before].item, now);
    return readers_.add(now, two ? readers_.add(last.item, readers_[last.before].before) : chain);
  }

  bool same_block(uint32_t a, uint32_t b) { return stamps_[a].block == stamps_[b].block; }
  bool same_thread(uint32_t a, uint32_t b) { return stamps_[a].access.thread == stamps_[b].access.thread; }

  void check_readers(ShadowPage& page, int first, int bytes, uint32_t now, const Touch& touch, int from,
                     Where where) {
    uint32_t known = 0;
    for (int i = first; i < first + bytes && page.readers != nullptr; ++i) {
      if (page.readers[i] == known) continue;
      known = page.readers[i];
      for (uint32_t chain = known; chain != 0; chain = readers_[chain].before) {
        const uint32_t past = readers_[chain].item;
        if (!is_ordered(past, now)) race("write after read", touch, from + i - first, past, where);
      }
    }
  }

  // ---- writes

  void note_write(ShadowPage& page, int first, int bytes, uint32_t now) {
    if (page.writes == nullptr) page.writes = ShadowPages::cells();
    bool over_atomic = false;
    for (int i = first; i < first + bytes; ++i) {
      over_atomic |= stamps_[page.writes[i]].atomic;
      page.writes[i] = now;
      if (page.readers != nullptr) page.readers[i] = 0;
    }
    if (over_atomic && !stamps_[now].atomic)
      telling().overwrite(page.number * ShadowPages::kBytes + first, bytes);
  }

  // ---- faults

  void add_place(Text& text, const Touch& touch, int byte) {
    const char* name = nullptr;
    for (const Tensor& each : tensors) {
      if (reinterpret_cast<const void*>(each.address) == touch.tensor) name = each.name;
    }
    const char* at = static_cast<const char*>(touch.at) + byte;
    text.add("element %lld of ",
             static_cast<long long>((at - static_cast<const char*>(touch.tensor)) / touch.element));
    if (name != nullptr) text.add("%s", name);
    if (name == nullptr) text.add("the memory at %p", touch.tensor);
  }

  [[noreturn]] void race(const char* kind, const Touch& touch, int byte, uint32_t stamp, Where where) {
    const Stamp& past = stamps_[stamp];
    Text place, who;
    add_place(place, touch, byte);
    if (past.block == machine().number) {
      who.add("thread %d of this block, with no barrier between", past.access.thread);
    } else {
      const Dim block = machine().block_of(past.block);
      who.add("thread %d of block (%d, %d, %d), which %s", past.access.thread, static_cast<int>(block.x),
              static_cast<int>(block.y), static_cast<int>(block.z), telling().reason(past));
    }
    machine().stop(where, "device memory race, %s: %s was touched by %s", kind, place.chars, who.chars);
  }

  [[noreturn]] void constant(const char* word, const Touch& touch, int byte, uint32_t stamp, Where where) {
    Text place;
    add_place(place, touch, byte);
    const Stamp& past = stamps_[stamp];
    const Dim block = machine().block_of(past.block);
    machine().stop(where, "%s of what this launch writes: %s was written by thread %d of block (%d, %d, %d)",
                   word, place.chars, past.access.thread, static_cast<int>(block.x),
                   static_cast<int>(block.y), static_cast<int>(block.z));
  }

  ShadowPages pages_;
  Array<Stamp> stamps_;      // the first is of nobody
  Array<uint32_t> current_;  // of each thread
  Chains readers_;
};

inline Device the_device;

inline Device& device() { return the_device; }

}  // namespace kgen::sim
