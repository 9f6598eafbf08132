// Kernels for the tests of races on device memory: three blocks of 128 threads, which bring a piece each. The
// data are counts, then from element 128 on a piece of each block, then 128 results.
#define KGEN_LDS_LIMIT 65536
constexpr int kBlocks = 3, kThreads = 128;
#include "kernels.hpp"

#include "kgen/gpu/boxes.hpp"

namespace {

constexpr int kPieces = 128, kResults = kPieces + kBlocks * kThreads;
int block() { return kgen::block_x(); }
int place(int of_block) { return kPieces + of_block * kThreads + t(); }

// What a block learns by adding to a count.
struct Notes {
  Notes() : lds(16, kgen::here()), words(lds.array<int>(0, 4)) {}
  void add(const Args& a, int count) const {
    if (t() == 0) words.store(count, ints(a).fetch_add(count, 1));
  }
  int before(int count) const { return kgen::uniform(words.load(count)); }

  kgen::Lds lds;
  kgen::LdsArray<int> words;
};

void bring(const Args& a) { ints(a).store(place(block()), 1000 * block() + t()); }

void announce(const Args& a, const Notes& notes, int count = 0) {
  kgen::block_sync();
  notes.add(a, count);
  kgen::block_sync();
}

}  // namespace

KERNEL(joins) {
  const Notes notes;
  bring(a);
  kgen::device_release();
  announce(a, notes);
  kgen::device_acquire();
  if (notes.before(0) != kBlocks - 1) return;
  int sum = 0;
  for (int i = 0; i < kBlocks; ++i) sum += ints(a).load(place(i));
  ints(a).store(kResults + t(), sum);
  if (t() == 0) ints(a).store(0, 0);
}

KERNEL(does_not_release) {
  const Notes notes;
  bring(a);
  announce(a, notes);
  kgen::device_acquire();
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(releases_in_one_wave) {
  const Notes notes;
  bring(a);
  if (t() < 64) kgen::device_release();
  announce(a, notes);
  kgen::device_acquire();
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(releases_by_the_thread_that_adds) {
  const Notes notes;
  bring(a);
  kgen::block_sync();
  if (t() == 0) kgen::device_release();
  notes.add(a, 0);
  kgen::block_sync();
  kgen::device_acquire();
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(releases_before_it_writes) {
  const Notes notes;
  kgen::device_release();
  bring(a);
  announce(a, notes);
  kgen::device_acquire();
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(releases_after_it_has_added) {
  const Notes notes;
  bring(a);
  announce(a, notes);
  kgen::device_release();
  kgen::device_acquire();
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(adds_before_its_waves_have_met) {
  const Notes notes;
  bring(a);
  kgen::device_release();
  notes.add(a, 0);
  kgen::block_sync();
  kgen::device_acquire();
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(does_not_acquire) {
  const Notes notes;
  bring(a);
  kgen::device_release();
  announce(a, notes);
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(acquires_in_one_wave) {
  const Notes notes;
  bring(a);
  kgen::device_release();
  announce(a, notes);
  if (t() < 64) kgen::device_acquire();
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(acquires_before_its_waves_have_met) {
  const Notes notes;
  bring(a);
  kgen::device_release();
  kgen::block_sync();
  notes.add(a, 0);
  kgen::device_acquire();
  kgen::block_sync();
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(acquires_before_it_adds) {
  const Notes notes;
  bring(a);
  kgen::device_release();
  kgen::device_acquire();
  announce(a, notes);
  for (int i = 0; i <= notes.before(0); ++i) ints(a).load(place(i));  // FAULT
}

KERNEL(reads_without_counting) {
  const Notes notes;
  bring(a);
  kgen::device_release();
  if (block() == 0) announce(a, notes);
  kgen::device_acquire();
  if (block() == 1) ints(a).load(place(0));  // FAULT
}

KERNEL(adds_to_a_count_of_its_own) {
  const Notes notes;
  bring(a);
  kgen::device_release();
  kgen::block_sync();
  if (t() == 0) ints(a).fetch_add(block(), 1);
  kgen::block_sync();
  kgen::device_acquire();
  if (block() == 1) ints(a).load(place(0));  // FAULT
}

KERNEL(does_not_look_at_the_count) {
  const Notes notes;
  bring(a);
  kgen::device_release();
  announce(a, notes);
  kgen::device_acquire();
  if (block() == 1) ints(a).load(place(0));
}

KERNEL(tells_by_compare_and_swap) {
  const Global<int64_t> words(a.data, a.count / 2);
  bring(a);
  kgen::device_release();
  kgen::block_sync();
  if (t() == 0) words.compare_and_swap(0, block(), block() + 1);
  kgen::block_sync();
  kgen::device_acquire();
  if (block() == 1) ints(a).load(place(0));  // FAULT
}

KERNEL(tells_by_a_store) {
  bring(a);
  kgen::device_release();
  kgen::block_sync();
  if (block() == 0 && t() == 0) ints(a).store(0, 1);
  if (block() == 1) ints(a).load(0);  // FAULT
}

KERNEL(looks_at_a_count_without_adding) {
  const Notes notes;
  if (block() == 0) announce(a, notes);
  if (block() == 1) ints(a).load(0);  // FAULT
}

KERNEL(restarts_a_count_too_early) {
  if (t() == 0) ints(a).fetch_add(0, 1);  // FAULT
  if (block() == 1 && t() == 0) ints(a).store(0, 0);
}

KERNEL(is_told_nothing_of_before_a_restart) {  // block 1 restarts the count that block 0 has added to
  const Notes notes;
  bring(a);
  if (block() == 0) kgen::device_release();
  if (block() < 2) announce(a, notes, 0);
  if (block() == 1 && t() == 0) ints(a).store(0, 0);
  if (block() == 1) kgen::device_release();
  if (block() > 0) announce(a, notes, 1);
  kgen::device_acquire();
  if (block() != 2) return;
  announce(a, notes, 0);
  kgen::device_acquire();
  ints(a).load(place(0));  // FAULT
}

KERNEL(passes_on) {  // block 0 tells block 1 by one count, and that tells block 2 by another
  const Notes notes;
  bring(a);
  if (block() == 0) kgen::device_release();
  if (block() < 2) announce(a, notes, 0);
  kgen::device_acquire();
  kgen::device_release();
  if (block() > 0) announce(a, notes, 1);
  kgen::device_acquire();
  if (block() == 2) ints(a).store(kResults + t(), ints(a).load(place(0)));
}

KERNEL(passes_on_what_it_has_not_acquired) {
  const Notes notes;
  bring(a);
  if (block() == 0) kgen::device_release();
  if (block() < 2) announce(a, notes, 0);
  kgen::device_release();
  if (block() > 0) announce(a, notes, 1);
  kgen::device_acquire();
  if (block() == 2) ints(a).load(place(1));
  if (block() == 2) ints(a).load(place(0));  // FAULT
}

KERNEL(hands_memory_back) {  // block 0 reads what block 1 then writes
  const Notes notes;
  if (block() == 0) ints(a).load(place(0));
  kgen::device_release();
  announce(a, notes);
  kgen::device_acquire();
  if (block() == 1) ints(a).store(place(0), 7);
}

KERNEL(writes_what_another_block_reads) {
  if (block() == 0) ints(a).load(place(0));
  if (block() == 1) ints(a).load(place(0));
  if (block() == 2) ints(a).store(place(0), 7);  // FAULT
}

KERNEL(writes_what_another_block_writes) {
  ints(a).store(kResults + t() + block() * 127, block());  // FAULT
}

KERNEL(writes_beside_another_block) {
  const Global<uint8_t> bytes(a.data, a.count * 4);
  bytes.store(4 * kResults + t() * 3 + block(), static_cast<uint8_t>(block()));
}

KERNEL(reads_by_vectors_what_another_block_writes) {
  if (block() == 0 && t() == 0) ints(a).store(kResults + 7, 7);
  if (block() == 1) ints(a).load<4>(kResults + 4);  // FAULT
}

KERNEL(reads_uniformly_what_it_has_written) {
  if (t() == 0) ints(a).store(place(block()), 1);
  kgen::block_sync();
  ints(a).load_uniform(kPieces + block() * kThreads);  // FAULT
}

KERNEL(brings_a_box_of_what_it_has_written) {
  KGEN_LDS(lds, 2048 + 16);
  const kgen::Landings landings(lds.array<int64_t>(2048, 2));
  const kgen::BoxMap map = {a.data + 4 * kPieces, 2048, 0, 0, 64, 16};
  const kgen::Boxes<kgen::f16, 16, 64> boxes(map);
  if (t() == 0) landings.make(1, 1);
  bring(a);
  kgen::block_sync();
  if (t() != 0) return;
  landings.expect(0, 2048);
  boxes.bring(lds.array<kgen::f16>(0, 1024), 0, landings, 0, 0, 0, 0);  // FAULT
}

KERNEL(reads_what_another_wave_wrote) {
  ints(a).store(place(block()), 1);
  if (t() >= 64) ints(a).load(place(block()) - 64);  // FAULT
}

KERNEL(reads_what_another_lane_wrote) {
  ints(a).store(place(block()), 1);
  kgen::shuffle_xor<1>(1.0f);  // meets, but orders nothing
  ints(a).load(place(block()) ^ 1);  // FAULT
}

KERNEL(writes_in_place) {  // each thread reads its own and the next, and writes its own
  const int own = place(block());
  const int next = t() == kThreads - 1 ? 0 : ints(a).load(own + 1);
  ints(a).store(own, ints(a).load(own) + next);  // FAULT
}

KERNEL(orders_by_barriers) {
  const int own = place(block());
  ints(a).store(own, 1);
  kgen::wave_sync();
  const int other = ints(a).load(own ^ 1);
  kgen::block_sync();
  ints(a).store(own ^ 64, other + 1);
  kgen::block_sync();
  ints(a).store(kResults + t() + block() * kThreads, ints(a).load(own ^ 3));
}
