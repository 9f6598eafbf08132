// The dialect on the host CPU: every word checks what the hardware would not.
#pragma once

#define KGEN_DEVICE inline
#define KGEN_UNROLL
#define KGEN_NO_UNROLL
#define KGEN_KERNEL(threads, blocks) static
#define KGEN_LDS(name, bytes) const kgen::Lds name(bytes, kgen::here())

#include "kgen/sim/support.hpp"

#pragma GCC visibility push(hidden)

#include "kgen/gpu/types.hpp"
#include "kgen/sim/half.hpp"
#include "kgen/sim/lds.hpp"
#include "kgen/sim/machine.hpp"
#include "kgen/sim/meeting.hpp"
#include "kgen/sim/traffic.hpp"

namespace kgen {

constexpr int kWave = KGEN_WAVE;

using sim::Global;
using sim::Lds;
using sim::LdsArray;
using sim::Window;

// ---- numbers

template <>
inline bf16 from_float<bf16>(float value) {
  return {bits::bf16_of(value)};
}
inline float exp2(float x) { return __builtin_exp2f(x); }
inline float log2(float x) { return __builtin_log2f(x); }
inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
inline float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// ---- where a thread stands

inline int thread_id() { return sim::machine().current; }
inline int lane_id() { return sim::machine().lane(); }
inline int block_x() { return static_cast<int>(sim::machine().block.x); }
inline int block_y() { return static_cast<int>(sim::machine().block.y); }
inline int block_z() { return static_cast<int>(sim::machine().block.z); }

// ---- the block and the wave

inline void block_sync(Where where = here()) {
  sim::machine().wait(sim::State::kAtBlock, "block_sync", where);
}

inline void wave_sync(Where where = here()) {
  sim::Wave& wave = sim::machine().wave();
  const uint32_t orders = wave.orders;
  sim::machine().wait(sim::State::kAtWave, "wave_sync", where);
  wave.orders = orders + 1;
  sim::machine().share_in_wave();
}

inline void keep_order() {}
inline void keep_order(int&) {}
template <typename T, int N>
void keep_order(Vec<T, N>&) {}

// Blocks run one after another here, and what one wrote is there for the next. Whether it was said is
// checked.
inline void device_release(Where = here()) { sim::telling().release(); }
inline void device_acquire(Where = here()) { sim::telling().acquire(); }

template <typename T>
T shuffle(T x, int lane, Where where = here()) {
  const sim::Meeting<T> meeting(x, "shuffle", where);
  if (lane < 0 || lane >= kWave) sim::machine().stop(where, "shuffle from lane %d of %d", lane, kWave);
  return meeting.of(lane);
}

template <int Mask, typename T>
T shuffle_xor(T x, Where where = here()) {
  static_assert(Mask > 0 && Mask < kWave, "the partner must be a lane of the wave");
  return sim::Meeting<T>(x, "shuffle_xor", where).of(lane_id() ^ Mask);
}

inline uint64_t ballot(bool predicate, Where where = here()) {
  const sim::Meeting<bool> meeting(predicate, "ballot", where);
  uint64_t set = 0;
  for (int lane = 0; lane < kWave; ++lane) set |= static_cast<uint64_t>(meeting.of(lane)) << lane;
  return set;
}

inline int bits_set(uint64_t bits) { return __builtin_popcountll(bits); }

inline int uniform(int x, Where where = here()) {
  const int first = sim::Meeting<int>(x, "uniform", where).of(0);
  if (first != x) sim::machine().stop(where, "uniform: lane 0 has %d, this lane %d", first, x);
  return x;
}

// Lane l shows elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4, and gets those of that column.
template <typename T>
Vec<T, 2> turn(const Vec<T, 2>& pair, Where where = here()) {
  const sim::Meeting<Vec<T, 2>> tile(pair, "turn", where);
  const int column = lane_id() / 4, row = lane_id() % 4 * 2;
  Vec<T, 2> got;
  for (int i = 0; i < 2; ++i) got[i] = tile.of((row + i) * 4 + column / 2)[column % 2];
  return got;
}

// Tiles of shared memory: see cuda.hpp.
template <typename T>
Vec<T, 8> read_tiles(const LdsArray<T>& from, int at, Where where = here()) {
  const sim::Meeting<int> places(at, "read_tiles", where);
  sim::banks().touch(from.byte(at), 16, false, where);
  Vec<T, 8> got;
  for (int i = 0; i < 8; ++i) {
    got[i] = from.template load_apart<1>(places.of(i / 2 * 8 + lane_id() / 4) + lane_id() % 4 * 2 + i % 2,
                                         where)[0];
  }
  return got;
}

template <typename T>
Vec<T, 8> read_tiles_transposed(const LdsArray<T>& from, int at, Where where = here()) {
  const sim::Meeting<int> places(at, "read_tiles_transposed", where);
  sim::banks().touch(from.byte(at), 16, false, where);
  Vec<T, 8> got;
  for (int i = 0; i < 8; ++i) {
    got[i] = from.template load_apart<1>(places.of(i / 2 * 8 + lane_id() % 4 * 2 + i % 2) + lane_id() / 4,
                                         where)[0];
  }
  return got;
}

// Lanes meet here too: on a chip the number comes from one of them.
inline int wave_id(Where where = here()) {
  return sim::Meeting<int>(sim::machine().current / kWave, "wave_id", where).of(0);
}

}  // namespace kgen

#include "kgen/sim/launch.hpp"

#pragma GCC visibility pop
