// Kernels for the tests of the simulator: two blocks of 128 threads.
#define KGEN_LDS_LIMIT 65536
constexpr int kBlocks = 2, kThreads = 128;
#include "kernels.hpp"

#include "kgen/gpu/boxes.hpp"
#include "kgen/gpu/groups.hpp"

static int id() { return kgen::block_x() * kThreads + kgen::thread_id(); }

KERNEL(reads_past_the_end) {
  if (id() == 200) ints(a).load(a.count);  // FAULT
}

KERNEL(writes_before_the_start) {
  if (id() == 3) ints(a).store(-1, 7);  // FAULT
}

KERNEL(reads_half_past_the_end) {
  ints(a).load<4>(a.count - 3);  // FAULT
}

KERNEL(reads_misaligned) {
  ints(a).load<4>(id() * 4 + 1);  // FAULT
}

KERNEL(steps_a_window_astray) {
  auto window = ints(a).window(8, 64);
  window.step(16, 24);
  window.step(-8, 17);  // FAULT
}

KERNEL(leaves_memory_through_a_window) {
  const auto window = ints(a).window(a.count - 8, 64);
  window.load<4>(kgen::kOutside);
  window.load<4>(8);  // FAULT
}

KERNEL(reads_what_is_absent) {
  Global<int>(0, 16).load(0);  // FAULT
}

KERNEL(reads_uninitialised_lds) {
  KGEN_LDS(lds, 1024);
  const auto words = lds.array<int>(0, 256);
  if (t() != 9) words.store(t(), 1);
  kgen::block_sync();
  words.load(t());  // FAULT
}

KERNEL(reads_lds_of_the_block_before) {
  KGEN_LDS(lds, 1024);
  const auto words = lds.array<int>(0, 256);
  if (kgen::block_x() == 0) words.store(t(), 1);
  if (kgen::block_x() == 1) words.load(t());  // FAULT
}

KERNEL(reads_past_its_lds_array) {
  KGEN_LDS(lds, 1024);
  lds.array<int>(0, 128).store(t() + 1, 1);  // FAULT
}

KERNEL(carves_past_the_lds) {
  KGEN_LDS(lds, 1024);
  lds.array<int>(512, 129);  // FAULT
}

KERNEL(declares_too_much_lds) {
  KGEN_LDS(lds, 65537);  // FAULT
  (void)lds;
}

KERNEL(declares_all_the_lds) {
  KGEN_LDS(lds, 65536);
  lds.array<int>(0, 128).store(t(), 1);
}

KERNEL(reads_what_another_wave_writes) {
  KGEN_LDS(lds, 1024);
  const auto words = lds.array<int>(0, 256);
  words.store(t(), 1);
  kgen::block_sync();
  if (t() < 64) words.store(t(), 2);
  if (t() >= 64) words.load(t() - 64);  // FAULT
}

KERNEL(writes_what_another_wave_reads) {
  KGEN_LDS(lds, 1024);
  const auto words = lds.array<int>(0, 256);
  words.store(t(), 1);
  kgen::block_sync();
  if (t() < 64) words.load(t());
  if (t() >= 64) words.store(t() - 64, 2);  // FAULT
}

KERNEL(writes_what_two_others_read) {
  KGEN_LDS(lds, 16);
  const auto words = lds.array<int>(0, 4);
  if (t() == 0) words.store(0, 1);
  kgen::block_sync();
  if (t() == 1 || t() == 2) words.load(0);
  if (t() == 2) words.store(0, 2);  // FAULT
}

KERNEL(writes_twice_from_two_waves) {
  KGEN_LDS(lds, 16);
  if (t() % 64 == 0) lds.array<int>(0, 4).store(0, t());  // FAULT
}

KERNEL(reads_a_neighbour_without_wave_sync) {
  KGEN_LDS(lds, 1024);
  const auto words = lds.array<int>(0, 256);
  words.store(t(), 1);
  kgen::shuffle_xor<1>(1.0f);  // meets, but orders nothing
  words.load(t() ^ 1);  // FAULT
}

KERNEL(orders_lds_by_block_sync) {
  KGEN_LDS(lds, 1024);
  const auto words = lds.array<int>(0, 256);
  words.store(t(), id());
  kgen::block_sync();
  const int other = words.load(127 - t());
  kgen::block_sync();
  words.store(t() ^ 1, other);
  kgen::block_sync();
  ints(a).store(id(), words.load(t() ^ 1));
}

KERNEL(orders_lds_by_wave_sync) {
  KGEN_LDS(lds, 1024);
  const auto words = lds.array<int>(0, 256);
  for (int round = 0; round < 3; ++round) {
    words.store(t(), id() + round);
    kgen::wave_sync();
    ints(a).store(id(), words.load(t() ^ 1));
    kgen::wave_sync();
  }
}

KERNEL(skips_a_barrier) {
  if (t() < 100) kgen::block_sync();  // FAULT
}

KERNEL(leaves_before_a_barrier) {
  if (t() == 127) return;
  kgen::block_sync();  // FAULT
}

KERNEL(waits_at_two_barriers) {
  if (t() < 64) {
    kgen::block_sync();  // FAULT
  } else {
    kgen::block_sync();
  }
}

KERNEL(shuffles_with_half_a_wave) {
  if (t() % 64 < 32) kgen::shuffle(1.0f, 0);  // FAULT
}

KERNEL(asks_for_its_wave_in_one_lane) {
  if (t() % 64 == 0) kgen::wave_id();  // FAULT
}

KERNEL(shuffles_a_different_number_of_times) {
  for (int i = 0; i < 1 + t() % 2; ++i) kgen::shuffle_xor<1>(1.0f);  // FAULT
}

KERNEL(shuffles_across_a_barrier) {
  if (t() == 5) {
    kgen::block_sync();
  } else {
    kgen::shuffle(1.0f, 0);  // FAULT
  }
}

KERNEL(shuffles_from_no_lane) {
  kgen::shuffle(1.0f, kgen::kWave);  // FAULT
}

KERNEL(calls_a_sum_in_two_places) {
  if (t() % 2) {
    kgen::lanes_sum<1, 4>(1.0f);
  } else {
    kgen::lanes_sum<1, 4>(1.0f);  // FAULT
  }
}

KERNEL(claims_to_be_uniform) {
  kgen::uniform(t() / 100);  // FAULT
}

KERNEL(exchanges) {
  const float mine = static_cast<float>(t());
  const float sum = kgen::lanes_sum<1, kgen::kWave>(mine);
  const float team = kgen::lanes_max<1, 8>(mine);
  const float across = kgen::lanes_sum<8, kgen::kWave>(mine);
  const float last = kgen::shuffle(mine, kgen::kWave - 1);
  const uint64_t odd = kgen::ballot(t() % 2 == 1);
  const auto pair = kgen::shuffle_xor<2>(Vec<float, 2>{{mine, -mine}});
  const float row[8] = {sum, team, across, last, odd == (~0ull / 3 * 2) >> (64 - kgen::kWave) ? 1.0f : 0.0f,
                        pair[0], pair[1], static_cast<float>(kgen::lane_id())};
  for (int i = 0; i < 8; ++i) floats(a).store(id() * 8 + i, row[i]);
}

KERNEL(reads_one_word_with_every_lane) {
  ints(a).load(0);
  kgen::wave_sync();
  ints(a).load(0);
}

KERNEL(reads_its_own_16_bytes) { ints(a).load<4>(id() * 4); }

KERNEL(reports_after_writing) {
  ints(a).store(id(), 1);
  if (id() == 130 || id() == 140) kgen::report(a.error, 3, 11, 22, id());
}

KERNEL(converts_f16) {
  for (int i = id(); i < 65536; i += 256) {
    const kgen::f16 half{static_cast<uint16_t>(i)};
    floats(a).store(i, kgen::to_float(half));
  }
}

KERNEL(converts_bf16) {
  for (int i = id(); i < 65536; i += 256) {
    const kgen::bf16 half{static_cast<uint16_t>(i)};
    floats(a).store(i, kgen::to_float(half));
  }
}

KERNEL(rounds) {  // word i: the float; then its f16 in the lower half, its bf16 in the upper
  for (int64_t i = id(); i < a.count; i += 256) {
    const float value = floats(a).load(i);
    const uint32_t low = kgen::from_float<kgen::f16>(value).bits;
    const uint32_t high = kgen::from_float<kgen::bf16>(value).bits;
    ints(a).store(i, static_cast<int>(high << 16 | low));
  }
}

// Boxes: 16 rows of 64 elements that are 128 apart, of 32 rows; two words tell of them.
namespace {
struct Landed {
  Landed(const Args& a, int speakers)
      : lds(16384 + 16, kgen::here()),
        halves(lds.array<kgen::f16>(0, 8192)),
        landings(lds.array<int64_t>(16384, 2)),
        map{a.data, a.count * 2, 0, 0, 128, 32},
        boxes(map) {
    if (t() == 0) landings.make(2, speakers);
    kgen::block_sync();
  }
  kgen::Lds lds;
  kgen::LdsArray<kgen::f16> halves;
  kgen::Landings landings;
  kgen::BoxMap map;
  kgen::Boxes<kgen::f16, 16, 64> boxes;
};
}  // namespace

KERNEL(brings_a_box) {  // rows 16 to 31, and behind them what an own wave stores
  const Landed it(a, 2);
  for (int round = 0; round < 2; ++round) {
    if (t() == 0) {
      it.landings.expect(round, 2048);
      it.boxes.bring(it.halves, 0, it.landings, round, 16, 0, 0);
    }
    if (kgen::wave_id() == 1) {
      for (int i = kgen::lane_id(); i < 1024; i += kgen::kWave) it.halves.store(4096 + i, kgen::from_float<kgen::f16>(1.0f));
      kgen::engine_fence();
      it.landings.leave(round);
    }
    it.landings.wait(round, 0);
    kgen::block_sync();
    for (int i = t(); i < 128 && kgen::block_x() == 0; i += 128) {
      const auto piece = it.halves.load<8>(kgen::in_box<16>(i / 8, i % 2 * 8, i % 8 / 2 * 16));
      for (int e = 0; e < 8; ++e) floats(a).store(4096 + i * 8 + e, kgen::to_float(piece[e]));
      floats(a).store(5120 + i, kgen::to_float(it.halves.load(4096 + i)));
    }
    kgen::block_sync();
  }
}

KERNEL(waits_for_a_box_nobody_brings) {
  const Landed it(a, 1);
  if (t() == 0) it.landings.expect(1, 2048);
  it.landings.wait(1, 0);  // FAULT
}

KERNEL(waits_for_a_speaker_too_many) {
  const Landed it(a, 2);
  if (t() == 0) it.landings.expect(0, 0);
  it.landings.wait(0, 0);  // FAULT
}

KERNEL(waits_for_a_round_that_is_long_over) {
  const Landed it(a, 1);
  for (int round = 0; round < 2; ++round) {
    if (t() == 0) it.landings.expect(0, 0);
    it.landings.wait(0, round);
    kgen::block_sync();
  }
  it.landings.wait(0, 0);  // FAULT
}

KERNEL(waits_for_a_round_that_has_not_begun) {
  const Landed it(a, 1);
  it.landings.wait(0, 1);  // FAULT
}

KERNEL(speaks_twice) {
  const Landed it(a, 1);
  if (t() == 0) it.landings.expect(0, 2048);
  if (t() == 0) it.landings.expect(0, 2048);  // FAULT
}

KERNEL(brings_more_than_it_said) {
  const Landed it(a, 2);
  if (t() == 0) it.landings.expect(0, 1024);
  if (t() == 0) it.boxes.bring(it.halves, 0, it.landings, 0, 0, 0, 0);  // FAULT
}

KERNEL(brings_rows_past_the_last) {
  const Landed it(a, 1);
  if (t() == 0) it.landings.expect(0, 2048);
  if (t() == 0) it.boxes.bring(it.halves, 0, it.landings, 0, 17, 0, 0);  // FAULT
}

KERNEL(brings_a_box_off_its_place) {
  const Landed it(a, 1);
  if (t() == 0) it.landings.expect(0, 2048);
  if (t() == 0) it.boxes.bring(it.halves, 64, it.landings, 0, 0, 0, 0);  // FAULT
}

KERNEL(reads_a_box_before_it_has_landed) {
  const Landed it(a, 1);
  if (t() == 0) it.landings.expect(0, 2048);
  if (t() == 0) it.boxes.bring(it.halves, 0, it.landings, 0, 0, 0, 0);
  it.halves.load(t());  // FAULT
}

KERNEL(reads_before_its_lds_array) {
  KGEN_LDS(lds, 65536);
  lds.array<int>(0, 16384).load(-1);  // FAULT
}

KERNEL(reads_by_a_uniform_place) {
  if (ints(a).load_uniform(7) != ints(a).load(7)) ints(a).store(0, -1);
  ints(a).load_uniform(t() < 70 ? 3 : 4);  // FAULT
}

KERNEL(limits_a_window) {
  auto window = ints(a).window(8, 64);
  window.limit(12);
  const auto within = window.load<4>(8), past = window.load<4>(window.place(8), 4);
  if (t() == 0 && kgen::block_x() == 0) {
    ints(a).store(0, within[3]);
    ints(a).store(1, past[0]);
  }
  window.step(2, 5, 1, 19);
  window.step(1, int64_t{1} << 40, 0, 0);  // FAULT
}
