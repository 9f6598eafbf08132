// Global memory as the simulator sees it: bounds, bytes moved, and a log that can take all writes back.
#pragma once

#include "kgen/sim/device.hpp"
#include "kgen/sim/meeting.hpp"

namespace kgen::sim {

// What a call asks of memory. Lanes that read the same bytes before their wave next meets count as one
// access, as a coalescer makes them.
class Traffic {
 public:
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;

  void reset() {
    bytes_read = bytes_written = 0;
    log_.clear();
    if (seen_.size() == 0) seen_.resize(kSlots);
  }

  void read(const void* address, int bytes) {
    if (first_time(reinterpret_cast<uintptr_t>(address), bytes)) bytes_read += bytes;
  }

  void write(void* address, int bytes) {
    bytes_written += bytes;
    Undo undo{static_cast<char*>(address), bytes, {}};
    memcpy(undo.old, address, bytes);
    log_.push(undo);
  }

  void take_back() {
    for (size_t i = log_.size(); i-- > 0;) memcpy(log_[i].at, log_[i].old, log_[i].bytes);
    log_.clear();
  }

 private:
  struct Undo {
    char* at;
    int bytes;
    char old[16];
  };
  struct Seen {
    uintptr_t address;
    int bytes;
    uint32_t turn;
  };
  static constexpr int kSlotBits = 13;
  static constexpr size_t kSlots = size_t{1} << kSlotBits;
  static constexpr size_t kProbes = 8;

  // Whether the wave asks for these bytes first in this turn. A crowded table lets some count twice.
  bool first_time(uintptr_t address, int bytes) {
    const uint32_t turn = machine().turn;
    const size_t start = address * 0x9e3779b97f4a7c15ull >> (64 - kSlotBits);
    for (size_t i = 0; i < kProbes; ++i) {
      Seen& slot = seen_[(start + i) % kSlots];
      if (slot.turn != turn) {
        slot = {address, bytes, turn};
        return true;
      }
      if (slot.address == address && slot.bytes == bytes) return false;
    }
    return true;
  }

  Array<Undo> log_;
  Array<Seen> seen_;
};

inline Traffic the_traffic;

inline Traffic& traffic() { return the_traffic; }

template <typename T>
class Window;

// Memory of the call: `elements` values of T from `address` on. Every access is checked.
template <typename T>
class Global {
 public:
  Global(int64_t address, int64_t elements) : base_(reinterpret_cast<char*>(address)), elements_(elements) {}

  bool present() const { return base_ != nullptr; }
  Window<T> window(int64_t at, int64_t span) const { return {*this, at, span}; }

  template <int N>
  Vec<T, N> load(int64_t at, Where where = here()) const {
    const char* from = checked<N>(at, "read", where);
    device().read(touch<N>(from), where);
    return moved<N>(from);
  }
  T load(int64_t at, Where where = here()) const { return load<1>(at, where)[0]; }
  T load_uniform(int64_t at, Where where = here()) const {
    const int64_t first = Meeting<int64_t>(at, "load_uniform", where).of(0);
    if (first == at) return load_constant<1>(at, "load_uniform", where)[0];
    machine().stop(where, "load_uniform: lane 0 reads element %lld, this lane %lld",
                   static_cast<long long>(first), static_cast<long long>(at));
  }
  // What nothing writes in this launch.
  template <int N>
  Vec<T, N> load_constant(int64_t at, const char* word, Where where) const {
    const char* from = checked<N>(at, "read", where);
    device().read_constant(touch<N>(from), word, where);
    return moved<N>(from);
  }
  void prefetch(int64_t at, Where where = here()) const { checked<1>(at, "prefetch", where); }

  template <int N>
  void store(int64_t at, const Vec<T, N>& value, Where where = here()) const {
    char* to = checked<N>(at, "write", where);
    device().write(touch<N>(to), where);
    put(to, value);
  }
  void store(int64_t at, T value, Where where = here()) const { store<1>(at, Vec<T, 1>{{value}}, where); }

  T compare_and_swap(int64_t at, T expected, T value, Where where = here()) const {
    char* word = checked<1>(at, "compare_and_swap", where);
    device().atomic(touch<1>(word), false, where);
    const T old = moved<1>(word)[0];
    if (old == expected) put(word, value);
    return old;
  }
  T fetch_add(int64_t at, T value, Where where = here()) const {
    static_assert(sizeof(T) == sizeof(int), "fetch_add works on int");
    char* word = checked<1>(at, "fetch_add", where);
    device().atomic(touch<1>(word), true, where);
    const T old = moved<1>(word)[0];
    put(word, old + value);
    return old;
  }

 private:
  template <int N>
  Touch touch(const char* at) const {
    return {at, sizeof(T) * N, base_, sizeof(T)};
  }
  template <int N>
  static Vec<T, N> moved(const char* from) {
    traffic().read(from, sizeof(T) * N);
    Vec<T, N> value;
    memcpy(&value, from, sizeof(T) * N);
    return value;
  }
  template <typename Value>
  static void put(char* to, const Value& value) {
    traffic().write(to, sizeof(value));
    memcpy(to, &value, sizeof(value));
  }

  template <int N>
  char* checked(int64_t at, const char* access, Where where) const {
    static_assert(sizeof(T) * N <= 16, "one access moves at most 16 bytes");
    if (base_ == nullptr) machine().stop(where, "global %s of an absent tensor", access);
    if (at < 0 || at > elements_ - N) {
      machine().stop(where, "out-of-range global %s of %d element(s) at %lld of %lld", access, N,
                     static_cast<long long>(at), static_cast<long long>(elements_));
    }
    char* place = base_ + at * static_cast<int64_t>(sizeof(T));
    if (reinterpret_cast<uintptr_t>(place) % alignof(Vec<T, N>) != 0) {
      machine().stop(where, "misaligned global %s: element %lld is not on a multiple of %d bytes", access,
                     static_cast<long long>(at), static_cast<int>(alignof(Vec<T, N>)));
    }
    return place;
  }

  char* base_;
  int64_t elements_;
};

// A window of `span` elements on memory of the call. It moves by steps, all lanes of a wave alike, and where
// they lead is checked; loads count from there, and from `span` on bring zeros.
template <typename T>
class Window {
 public:
  Window(const Global<T>& memory, int64_t at, int64_t span) : memory_(memory), at_(at), span_(span) {}

  // Moves by `delta` elements, and must then stand at element `at` of the memory.
  void step(int64_t delta, int64_t at, Where where = here()) {
    at_ += delta;
    if (at_ == at) return;
    machine().stop(where, "a window stepped by %lld to element %lld instead of %lld",
                   static_cast<long long>(delta), static_cast<long long>(at_), static_cast<long long>(at));
  }

  // Moves by `pages` times `apart` elements, which a chip multiplies with 32 bits, and `more`.
  void step(int pages, int64_t apart, int more, int64_t at, Where where = here()) {
    constexpr int64_t kMost = 0x7fffffff / sizeof(T);
    if (pages != 0 && (apart < 0 || apart > kMost)) {
      machine().stop(where, "a window steps by pages that are %lld elements apart",
                     static_cast<long long>(apart));
    }
    step(pages * apart + more, at, where);
  }

  // From here on `span` elements count.
  void limit(int span, Where where = here()) {
    if (span < 0) machine().stop(where, "a window limited to %d elements", span);
    span_ = span;
  }

  template <int N>
  Vec<T, N> load(int at, Where where = here()) const {
    if (at < 0) machine().stop(where, "a window was read at %d", at);
    return at < span_ ? memory_.template load<N>(at_ + at, where) : Vec<T, N>{};
  }

  static int place(int at) { return at; }
  template <int N>
  Vec<T, N> load(int place, int more, Where where = here()) const {
    return load<N>(place + more, where);
  }

 private:
  Global<T> memory_;
  int64_t at_, span_;
};

}  // namespace kgen::sim
