// The shared array of a block, with a shadow that knows who touched each byte, and when.
#pragma once

#include "kgen/sim/banks.hpp"
#include "kgen/sim/order.hpp"
#include "kgen/sim/reading.hpp"

namespace kgen::sim {

constexpr unsigned char kPoison = 0xff;  // NaN in every float format
constexpr int kLdsLimit = KGEN_LDS_LIMIT;

// Two accesses of a byte by different threads, one of them a write, race unless something orders them.
// Products read while others go on: see `Reading`.
class Shadow {
 public:
  void resize(int bytes) {
    if (cells_.size() < static_cast<size_t>(bytes)) cells_.resize(bytes);
  }

  void read(int first, int bytes, Where where) {
    const Access now = this_access();
    for (int i = first; i < first + bytes; ++i) {
      Cell& cell = cells_[i];
      if (cell.written_in != machine().serial) machine().stop(where, "uninitialised LDS read of byte %d", i);
      if (conflicts(cell.write, now)) race("read after write", i, cell.write, where);
      note_read(cell, now);
    }
  }

  // By the copy engine, for the landing whose word is at `landing`. Products find it without being told.
  void write_by_engine(int first, int bytes, int landing, Where where) {
    write(first, bytes, where);
    const Access engine = machine().engine_access(landing, where);
    for (int i = first; i < first + bytes; ++i) {
      cells_[i].write = engine;
      cells_[i].told = kTold;
    }
  }

  // A product reads, for each wave of a group: its last lane speaks for it, as the first often waits alone.
  void read_for_product(int first, int bytes, int group, Where where) {
    for (int i = first; i < first + bytes; ++i) {
      const Cell& cell = cells_[i];
      if (cell.written_in != machine().serial) machine().stop(where, "uninitialised LDS read of byte %d", i);
      if (i != first && same(cell.write, cells_[i - 1].write) && cell.told == cells_[i - 1].told) continue;
      for (int last = kWaveLanes - 1; last < kGroupThreads; last += kWaveLanes) {
        if (conflicts(cell.write, access_of(group * kGroupThreads + last))) {
          race("read after write", i, cell.write, where);
        }
      }
      if (cell.told != kTold && machine().told(cell.write.thread) <= cell.told) {
        machine().stop(where, "a product reads byte %d of LDS, which thread %d stored without engine_fence",
                       i, cell.write.thread);
      }
    }
  }

  void write(int first, int bytes, Where where) {
    const Access now = this_access();
    reading().write(first, bytes, where);
    for (int i = first; i < first + bytes; ++i) {
      Cell& cell = cells_[i];
      if (conflicts(cell.write, now)) race("write after write", i, cell.write, where);
      if (conflicts(cell.read, now)) race("write after read", i, cell.read, where);
      if (conflicts(cell.other_read, now)) race("write after read", i, cell.other_read, where);
      cell.write = now;
      cell.written_in = machine().serial;
      cell.told = machine().told(now.thread);
    }
  }

 private:
  struct Cell {
    Access write, read, other_read;
    uint32_t written_in;  // serial of the block
    uint32_t told;        // engine_fences of the writer before it
  };
  static constexpr uint32_t kTold = ~0u;

  static bool same(const Access& a, const Access& b) {
    return a.thread == b.thread && a.time == b.time && a.order == b.order && a.epoch == b.epoch;
  }

  static bool conflicts(const Access& past, const Access& now) {
    if (past.epoch < machine().first_epoch) return false;  // of another block
    if (machine().is_engine(past)) return !clocks().knows(now.thread, past.thread, past.time);
    return !is_before(past, now);
  }

  // Two readers are enough to remember, the newest of a wave and another (of another wave, if any): a
  // writer that races with any reader races with one of them.
  static void note_read(Cell& cell, const Access& now) {
    if (cell.read.epoch != now.epoch || (same_wave(cell.read, now) && cell.read.order < now.order)) {
      cell.read = now;
    } else if (!same_wave(cell.read, now)) {
      cell.other_read = now;
    } else if (cell.read.thread != now.thread) {
      const bool other_wave = cell.other_read.epoch == now.epoch && !same_wave(cell.other_read, now);
      if (!other_wave) cell.other_read = now;
    }
  }

  [[noreturn]] static void race(const char* kind, int byte, const Access& past, Where where) {
    if (machine().is_engine(past)) {
      machine().stop(where, "LDS race, %s: byte %d comes in a box that was not waited for", kind, byte);
    }
    machine().stop(where, "LDS race, %s: byte %d was touched by thread %d with no barrier between", kind,
                   byte, past.thread);
  }

  Array<Cell> cells_;
};

// The array itself. It starts every block full of poison.
struct LdsStorage {
  Array<unsigned char> bytes;
  Shadow shadow;
  uint32_t serial = 0;  // of the block that last declared it
  int most = 0;         // bytes ever declared
};

inline LdsStorage the_lds;

// A part of the shared array. Every access is checked.
template <typename T>
class LdsArray {
 public:
  LdsArray(int offset, int count) : offset_(offset), count_(count) {}

  template <int N>
  Vec<T, N> load(int at, Where where = here()) const {
    const Vec<T, N> value = load_apart<N>(at, where);
    banks().touch(byte(at), sizeof(T) * N, false, where);
    return value;
  }
  // One that the banks are not asked for.
  template <int N>
  Vec<T, N> load_apart(int at, Where where) const {
    const int byte = checked<N>(at, "read", where);
    the_lds.shadow.read(byte, sizeof(T) * N, where);
    Vec<T, N> value;
    memcpy(&value, the_lds.bytes.begin() + byte, sizeof(T) * N);
    return value;
  }
  T load(int at, Where where = here()) const { return load<1>(at, where)[0]; }

  template <int N>
  void store(int at, const Vec<T, N>& value, Where where = here()) const {
    const int byte = checked<N>(at, "write", where);
    banks().touch(byte, sizeof(T) * N, true, where);
    the_lds.shadow.write(byte, sizeof(T) * N, where);
    memcpy(the_lds.bytes.begin() + byte, &value, sizeof(T) * N);
  }
  void store(int at, T value, Where where = here()) const { store<1>(at, Vec<T, 1>{{value}}, where); }

  template <int N>
  void store_by_engine(int at, const Vec<T, N>& value, int landing, Where where) const {
    const int byte = checked<N>(at, "write", where);
    the_lds.shadow.write_by_engine(byte, sizeof(T) * N, landing, where);
    memcpy(the_lds.bytes.begin() + byte, &value, sizeof(T) * N);
  }

  int byte(int at) const { return offset_ + at * static_cast<int>(sizeof(T)); }
  int end() const { return byte(count_); }

 private:
  template <int N>
  int checked(int at, const char* access, Where where) const {
    static_assert(sizeof(T) * N <= 16, "one access moves at most 16 bytes");
    if (at < 0 || at > count_ - N) {
      machine().stop(where, "out-of-range LDS %s of %d element(s) at %d of %d", access, N, at, count_);
    }
    const int byte = offset_ + at * static_cast<int>(sizeof(T));
    if (byte % alignof(Vec<T, N>) != 0) machine().stop(where, "misaligned LDS %s at byte %d", access, byte);
    return byte;
  }

  int offset_, count_;
};

class Lds {
 public:
  // Every thread of a block declares the array; the first finds it poisoned.
  Lds(int bytes, Where where) : bytes_(bytes) {
    if (bytes > kLdsLimit) machine().stop(where, "LDS of %d bytes; the target has %d", bytes, kLdsLimit);
    if (the_lds.serial == machine().serial) return;
    the_lds.serial = machine().serial;
    the_lds.bytes.resize(bytes);
    the_lds.shadow.resize(bytes);
    memset(the_lds.bytes.begin(), kPoison, bytes);
    if (bytes > the_lds.most) the_lds.most = bytes;
  }

  // `count` values of T from byte `offset` of the shared array on.
  template <typename T>
  LdsArray<T> array(int offset, int count, Where where = here()) const {
    const int end = offset + count * static_cast<int>(sizeof(T));
    if (offset < 0 || end > bytes_) machine().stop(where, "an LDS array ends at byte %d of %d", end, bytes_);
    return LdsArray<T>(offset, count);
  }

 private:
  int bytes_;
};

}  // namespace kgen::sim
