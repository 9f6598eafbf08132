// Device memory with a shadow that knows who touched it in the launch that runs: what finds races between
// threads of one block, and between blocks.
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

  // Between launches: what came before one is there for all of it.
  void forget() {
    pages_.release();
    stamps_.release();
    readers_.release();
    newest_ = {};
    telling().forget();
  }

  void read(const Touch& touch, Where where) {
    const uint32_t now = stamps_.now(telling().releases());
    pages_.of(touch.at, touch.bytes, [&](const ShadowPart& part) {
      if (part.page.writes != nullptr) check_writes("read after write", part, now, touch, where);
      note_read(part, now);
    });
  }

  // What nothing may write in this launch, as it is read by other ways than writes take.
  void read_constant(const Touch& touch, const char* word, Where where) {
    const uint32_t now = stamps_.now(telling().releases());
    pages_.of(touch.at, touch.bytes, [&](const ShadowPart& part) {
      const uint32_t* const writes = part.page.writes;
      for (int i = part.first; i < part.last && writes != nullptr; ++i) {
        if (writes[i] != 0) constant(word, touch, part.byte(i), stamps_[writes[i]], where);
      }
      note_read(part, now);
    });
  }

  void write(const Touch& touch, Where where) {
    const uint32_t now = stamps_.now(telling().releases());
    pages_.of(touch.at, touch.bytes, [&](const ShadowPart& part) {
      if (part.page.writes != nullptr) check_writes("write after write", part, now, touch, where);
      if (part.page.readers != nullptr) check_readers(part, now, touch, where);
      note_write(part, now);
    });
  }

  // A word is read and written at once. `adds`: by a fetch_add, with which blocks tell each other.
  void atomic(const Touch& touch, bool adds, Where where) {
    const uint32_t now = stamps_.atomic(stamps_.now(telling().releases()));
    pages_.of(touch.at, touch.bytes, [&](const ShadowPart& part) {
      if (part.page.writes != nullptr) check_writes("addition after write", part, now, touch, where);
      if (part.page.readers != nullptr) check_readers(part, now, touch, where);
      note_write(part, now);
    });
    if (adds) telling().add(reinterpret_cast<uintptr_t>(touch.at));
  }

 private:
  bool is_ordered(uint32_t past, uint32_t now) {
    const Stamp &earlier = stamps_[past], &later = stamps_[now];
    if (earlier.atomic && later.atomic) return true;
    return stamps_.same_block(past, now) ? is_before(earlier.access, later.access) : telling().knows(earlier);
  }

  void check_writes(const char* kind, const ShadowPart& part, uint32_t now, const Touch& touch, Where where) {
    uint32_t known = 0;
    for (int i = part.first; i < part.last; ++i) {
      const uint32_t past = part.page.writes[i];
      if (past == known || past == 0) continue;
      if (!is_ordered(past, now)) race(kind, touch, part.byte(i), stamps_[past], where);
      known = past;
    }
  }

  void check_readers(const ShadowPart& part, uint32_t now, const Touch& touch, Where where) {
    uint32_t known = 0;
    for (int i = part.first; i < part.last; ++i) {
      if (part.page.readers[i] == known) continue;
      known = part.page.readers[i];
      for (uint32_t chain = known; chain != 0; chain = readers_[chain].before) {
        const uint32_t past = readers_[chain].item;
        if (!is_ordered(past, now)) race("write after read", touch, part.byte(i), stamps_[past], where);
      }
    }
  }

  void note_read(const ShadowPart& part, uint32_t now) {
    if (part.page.readers == nullptr) part.page.readers = part.page.cells();
    for (int i = part.first; i < part.last; ++i) {
      uint32_t& readers = part.page.readers[i];
      // What a thread reads in turn was mostly read by the same threads.
      if (readers != newest_.before || now != newest_.now)
        newest_ = {readers, now, with_reader(readers, now)};
      readers = newest_.after;
    }
  }

  // A chain of readers has the last two threads of each block.
  uint32_t with_reader(uint32_t chain, uint32_t now) {
    if (chain == 0) return readers_.add(now, 0);
    const Chains::Link last = readers_[chain];
    if (last.item == now) return chain;
    if (!stamps_.same_block(last.item, now)) return readers_.add(now, chain);
    if (stamps_.same_thread(last.item, now)) return readers_.add(now, last.before);
    if (last.before == 0) return readers_.add(now, chain);
    const Chains::Link other = readers_[last.before];
    const bool two = stamps_.same_block(other.item, now);
    return readers_.add(now, two ? readers_.add(last.item, other.before) : chain);
  }

  void note_write(const ShadowPart& part, uint32_t now) {
    ShadowPage& page = part.page;
    if (page.writes == nullptr) page.writes = page.cells();
    bool over_atomic = false;
    for (int i = part.first; i < part.last; ++i) {
      over_atomic |= page.writes[i] != 0 && stamps_[page.writes[i]].atomic;
      page.writes[i] = now;
      if (page.readers != nullptr) page.readers[i] = 0;
    }
    if (!over_atomic || stamps_[now].atomic) return;
    const int cells = part.last - part.first;
    telling().overwrite(page.number * ShadowPage::kBytes + (part.first << page.shift), cells << page.shift);
  }

  void add_place(Text& text, const Touch& touch, int byte) {
    const char* const at = static_cast<const char*>(touch.at) + byte;
    const auto element = (at - static_cast<const char*>(touch.tensor)) / touch.element;
    text.add("element %lld of ", static_cast<long long>(element));
    for (const Tensor& each : tensors) {
      if (reinterpret_cast<const void*>(each.address) == touch.tensor) return text.add("%s", each.name);
    }
    text.add("the memory at %p", touch.tensor);
  }

  static void add_block(Text& text, const Stamp& stamp) {
    const Dim block = machine().block_of(stamp.block);
    text.add("thread %d of block (%d, %d, %d)", stamp.access.thread, static_cast<int>(block.x),
             static_cast<int>(block.y), static_cast<int>(block.z));
  }

  [[noreturn]] void race(const char* kind, const Touch& touch, int byte, const Stamp& past, Where where) {
    Text told;
    add_place(told, touch, byte);
    told.add(" was touched by ");
    if (past.block == machine().number) {
      told.add("thread %d of this block, with no barrier between", past.access.thread);
    } else {
      add_block(told, past);
      told.add(", which %s", telling().reason(past));
    }
    machine().stop(where, "device memory race, %s: %s", kind, told.chars);
  }

  [[noreturn]] void constant(const char* word, const Touch& touch, int byte, const Stamp& past, Where where) {
    Text told;
    add_place(told, touch, byte);
    told.add(" was written by ");
    add_block(told, past);
    machine().stop(where, "%s of what this launch writes: %s", word, told.chars);
  }

  struct Step {
    uint32_t before, now, after;
  };

  ShadowPages pages_;
  Stamps stamps_;
  Chains readers_;
  Step newest_{};  // of a chain of readers
};

inline Device the_device;

inline Device& device() { return the_device; }

}  // namespace kgen::sim
