// Kernels for the tests of products of groups on the simulator: one block of 256 threads, two groups.
#define KGEN_LDS_LIMIT 131072
constexpr int kBlocks = 1, kThreads = 256;
#include "kernels.hpp"

#include "kgen/gpu/boxes.hpp"
#include "kgen/gpu/groups.hpp"

using kgen::f16;

namespace {

Global<f16> halves(const Args& a) { return {a.data, 2 * a.count}; }
int group() { return t() / kgen::kGroup; }

// Of 128 rows of 64 elements: queries, 64 of each group, then 64 keys and 64 values of two panels.
constexpr int kPanel = 64 * 64;

struct Tiles {
  Tiles(const Args& a, bool tells = true)
      : lds(65536, kgen::here()),
        queries(lds.array<f16>(0, 2 * kPanel)),
        keys(lds.array<f16>(4 * kPanel, kPanel)),
        values(lds.array<f16>(6 * kPanel, 2 * kPanel)),
        landings(lds.array<int64_t>(10 * kPanel, 4)),
        map{a.data, 2 * a.count, 0, 0, 64, 128},
        boxes(map) {
    for (int row = t(); row < 5 * 64; row += 256) {
      for (int dim = 0; dim < 64; dim += 8) {
        const int at = row / 64 * kPanel + kgen::in_box<64>(row % 64, dim % 16, dim / 16 * 16);
        lds.array<f16>(0, 5 * kPanel).store<8>(at, halves(a).load<8>(row * 64 + dim));
      }
    }
    if (tells) kgen::engine_fence();
    if (t() == 0) landings.make(2, 1);
    if (t() == 0) kgen::Landings(lds.array<int64_t>(10 * kPanel + 16, 2)).make(2, 4);
    kgen::block_sync();
  }
  void scores(kgen::GroupSums<64>& sums) const {
    for (int dim = 0; dim < 64; dim += 16) {
      kgen::multiply(sums, kgen::rows_at(queries, group() * kPanel + dim), kgen::rows_at(keys, dim), dim != 0);
    }
  }
  kgen::Lds lds;
  kgen::LdsArray<f16> queries, keys, values;
  kgen::Landings landings;
  kgen::BoxMap map;
  kgen::Boxes<f16, 16, 64> boxes;
  kgen::Landings left() const { return kgen::Landings(lds.array<int64_t>(10 * kPanel + 16, 2)); }
};

void take(Vec<f16, 8> (&weights)[4], kgen::GroupSums<64>& sums) {
  for (int e = 0; e < 32; ++e) weights[e / 8][e % 8] = kgen::from_float<f16>(sums.at(e));
}

}  // namespace

KERNEL(attends) {  // (Q K^T) V, both to memory behind the operands
  const Tiles it(a);
  kgen::GroupSums<64> scores;
  kgen::GroupSums<128> sums;
  Vec<f16, 8> weights[4];
  kgen::products_begin(scores);
  it.scores(scores);
  kgen::products_commit();
  kgen::products_wait<0>(scores);
  take(weights, scores);
  for (int e = 0; e < 64; ++e) sums.at(e) = 1.0f;
  kgen::products_begin(sums, weights);
  for (int i = 0; i < 4; ++i) kgen::multiply(sums, weights[i], kgen::columns_at(it.values, i * 16 * 64, kPanel), true);
  kgen::products_commit();
  kgen::products_wait<0>(sums, weights);
  const int lane = kgen::lane_id(), first = t() / kgen::kWave * 16;
  for (int e = 0; e < 32; ++e) {
    floats(a).store(5 * kPanel / 2 + (first + kgen::sums_row(lane, e)) * 64 + kgen::sums_column(lane, e), scores.at(e));
  }
  for (int e = 0; e < 64; ++e) {
    floats(a).store(9 * kPanel / 2 + (first + kgen::sums_row(lane, e)) * 128 + kgen::sums_column(lane, e), sums.at(e));
  }
}

KERNEL(uses_sums_before_the_wait) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  it.scores(sums);
  kgen::products_commit();
  sums.at(0);  // FAULT
}

KERNEL(uses_sums_the_wait_does_not_name) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  it.scores(sums);
  kgen::products_commit();
  kgen::products_wait<0>();
  sums.at(0);  // FAULT
}

KERNEL(waits_for_too_few_batches) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  it.scores(sums);
  kgen::products_commit();
  kgen::products_wait<1>(sums);  // FAULT
}

KERNEL(multiplies_without_begin) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  it.scores(sums);
  kgen::products_commit();
  kgen::multiply(sums, kgen::rows_at(it.queries, 0), kgen::rows_at(it.keys, 0), true);  // FAULT
}

KERNEL(multiplies_sums_that_begin_was_not_told) {
  const Tiles it(a);
  kgen::GroupSums<64> sums, others;
  kgen::products_begin(others);
  kgen::multiply(sums, kgen::rows_at(it.queries, 0), kgen::rows_at(it.keys, 0), false);  // FAULT
}

KERNEL(changes_sums_after_begin) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  sums.at(3) = 1.0f;
  kgen::multiply(sums, kgen::rows_at(it.queries, 0), kgen::rows_at(it.keys, 0), true);  // FAULT
}

KERNEL(changes_an_operand_after_begin) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  Vec<f16, 8> weights = {};
  kgen::products_begin(sums, weights);
  weights[0] = {0x3c00};
  kgen::multiply(sums, weights, kgen::rows_at(it.keys, 0), false);  // FAULT
}

KERNEL(changes_an_operand_under_way) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  Vec<f16, 8> weights = {};
  kgen::products_begin(sums, weights);
  kgen::multiply(sums, weights, kgen::rows_at(it.keys, 0), false);
  kgen::products_commit();
  weights[0] = {0x3c00};
  kgen::products_wait<0>(sums);  // FAULT
}

KERNEL(stores_over_an_operand_under_way) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  it.scores(sums);
  kgen::products_commit();
  it.queries.store(group() * kPanel + t() % 128, {});  // FAULT
}

KERNEL(stores_before_all_waves_have_waited) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  it.scores(sums);
  kgen::products_commit();
  if (t() / 32 % 4 != 0) kgen::group_sync();
  kgen::products_wait<0>(sums);
  it.queries.store(group() * kPanel + t() % 128, {});  // FAULT
  if (t() / 32 % 4 == 0) kgen::group_sync();
}

KERNEL(stores_where_another_group_has_multiplied) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  it.scores(sums);
  kgen::products_commit();
  kgen::products_wait<0>(sums);
  if (group() == 1) it.keys.store(t() - 128, {});  // FAULT
}

KERNEL(brings_a_box_where_another_group_has_multiplied) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  it.scores(sums);
  kgen::products_commit();
  kgen::products_wait<0>(sums);
  if (t() == 128) it.landings.expect(0, 2048);
  if (t() == 128) it.boxes.bring(it.keys, 0, it.landings, 0, 0, 0, 0);  // FAULT
}

KERNEL(hands_operands_over) {  // scores of the keys, then of 16 rows of queries in place of the first of them
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  if (group() == 0) {
    for (int round = 0; round < 2; ++round) {
      if (round == 1) it.landings.wait(0, 0);
      kgen::products_begin(sums);
      it.scores(sums);
      kgen::products_commit();
      kgen::products_wait<0>(sums);
      it.left().leave(0);
    }
    const int row = t() / kgen::kWave * 16;
    for (int e = 0; e < 32; ++e) {
      floats(a).store(5 * kPanel / 2 + (row + kgen::sums_row(kgen::lane_id(), e)) * 64 + kgen::sums_column(kgen::lane_id(), e), sums.at(e));
    }
  } else if (t() / 32 == 4) {
    it.left().wait(0, -1);
    it.left().wait(0, 0);
    if (t() == 128) {
      it.landings.expect(0, 2048);
      it.boxes.bring(it.keys, 0, it.landings, 0, 16, 0, 0);
    }
  }
}

KERNEL(multiplies_what_has_not_landed) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  if (t() == 0) it.landings.expect(0, 2048);
  if (t() == 0) it.boxes.bring(it.keys, 0, it.landings, 0, 16, 0, 0);
  if (t() % 32 == 0) it.landings.wait(0, 0);
  kgen::products_begin(sums);
  kgen::multiply(sums, kgen::rows_at(it.queries, 0), kgen::rows_at(it.keys, 0), false);  // FAULT
}

KERNEL(multiplies_without_engine_fence) {
  const Tiles it(a, false);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  kgen::multiply(sums, kgen::rows_at(it.queries, 0), kgen::rows_at(it.keys, 0), false);  // FAULT
}

KERNEL(multiplies_what_another_wave_has_stored) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  if (t() % 128 == 0) it.queries.store(group() * kPanel, {});
  kgen::engine_fence();
  kgen::products_begin(sums);
  kgen::multiply(sums, kgen::rows_at(it.queries, group() * kPanel), kgen::rows_at(it.keys, 0), false);  // FAULT
}

KERNEL(multiplies_past_the_array) {
  const Tiles it(a);
  kgen::GroupSums<128> sums;
  kgen::products_begin(sums);
  kgen::multiply(sums, kgen::rows_at(it.queries, 0), kgen::rows_at(it.keys, 0), false);  // FAULT
}

KERNEL(multiplies_rows_off_their_place) {
  const Tiles it(a);
  kgen::rows_at(it.keys, 64);  // FAULT
}

KERNEL(multiplies_columns_off_their_place) {
  const Tiles it(a);
  kgen::columns_at(it.values, 16, kPanel);  // FAULT
}

KERNEL(multiplies_with_three_waves) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  if (t() / 32 % 4 == 3) return;
  kgen::multiply(sums, kgen::rows_at(it.queries, 0), kgen::rows_at(it.keys, 0), false);  // FAULT
}

KERNEL(names_operands_by_the_lane) {
  const Tiles it(a);
  kgen::GroupSums<64> sums;
  kgen::products_begin(sums);
  kgen::multiply(sums, kgen::rows_at(it.queries, 0), kgen::rows_at(it.keys, t() % 2 * 16), false);  // FAULT
}

KERNEL(meets_with_three_waves) {
  if (t() / 32 != 2) kgen::group_sync();  // FAULT
}
