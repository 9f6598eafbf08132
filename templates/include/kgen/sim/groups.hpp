// Products of groups on the simulator: four waves meet, operands are read where the chip would find them, and
// what is under way is nobody's until it has been waited for.
#pragma once

#include "kgen/sim/asking.hpp"

#pragma GCC visibility push(hidden)

namespace kgen::sim {

// An operand in shared memory: the 64 bytes of a row's 16 elements begin at `byte`, before pieces change
// places.
struct Placed {
  int byte, end;  // of its array
  int panel;      // bytes from one to the next
};

inline int swizzled(int byte) { return byte ^ (byte >> 7 & 7) << 4; }

// What a group multiplies next, as each of its threads says.
enum class Kind { kRows, kColumns, kHeld };
struct Factors {
  Placed a, b;
  bool more;
  Kind kind;  // of A
  unsigned char registers[16];
};

struct GroupProduct {
  uint32_t meeting;
  Factors said[kGroupThreads];
  float a[64][16], b[16][256], d[64][256];
};

inline Array<GroupProduct> the_group_products;

struct Votes {
  bool said[2][kGroupThreads];
};

inline Array<Votes> the_votes;

// The 8 elements of an operand at a multiple of 16 bytes.
template <typename T>
Vec<T, 8> piece(const Placed& operand, int offset, Where where) {
  const int byte = swizzled(operand.byte + offset);
  if (byte < 0 || byte + 16 > operand.end) {
    machine().stop(where, "an operand reaches byte %d of LDS, past its array of %d", byte, operand.end);
  }
  the_lds.shadow.read_for_product(byte, 16, group_id(), where);
  reading().read(group_id(), asking().committed, byte, 16);
  Vec<T, 8> values;
  memcpy(&values, the_lds.bytes.begin() + byte, 16);
  return values;
}

// Row `row` of an operand of rows, element k of it; or row k of one of columns.
inline int in_rows(int row, int k) { return row / 8 * 1024 + row % 8 * 128 + k * 2; }
inline int in_columns(int k, int column, int panel) {
  return column / 64 * panel + k / 8 * 1024 + k % 8 * 128 + column % 64 * 2;
}

template <typename T, int N, bool Columns>
void fill_product(GroupProduct& it, Where where) {
  const Factors& first = it.said[0];
  for (int i = 1; i < kGroupThreads; ++i) {
    const Factors& other = it.said[i];
    if (other.b.byte == first.b.byte && other.a.byte == first.a.byte && other.more == first.more) continue;
    machine().stop(where, "multiply: thread %d of the group names other operands than its first", i);
  }
  for (int row = 0; row < 64; ++row) {
    for (int k = 0; k < 16 && first.kind == Kind::kRows; k += 8) {
      const Vec<T, 8> read = piece<T>(first.a, in_rows(row, k), where);
      for (int i = 0; i < 8; ++i) it.a[row][k + i] = to_float(read[i]);
    }
    for (int k = 0; k < 16 && first.kind == Kind::kColumns && row % 8 == 0; ++k) {
      const Vec<T, 8> read = piece<T>(first.a, in_columns(k, row, first.a.panel), where);
      for (int i = 0; i < 8; ++i) it.a[row + i][k] = to_float(read[i]);
    }
    for (int k = 0; k < 16 && first.kind == Kind::kHeld; ++k) {
      // The lane and the element of its Vec<T, 8> that hold it: where sums_row and sums_column say so.
      const int lane = row % 8 * 4 + k % 8 / 2, e = k / 8 * 4 + row % 16 / 8 * 2 + k % 2;
      T held;
      memcpy(&held, it.said[row / 16 * kWaveLanes + lane].registers + e * sizeof(T), sizeof(T));
      it.a[row][k] = to_float(held);
    }
  }
  for (int i = 0; i < 16 * N; i += 8) {
    const int k = Columns ? i / N : i % 16, column = Columns ? i % N : i / 16;
    const int offset = Columns ? in_columns(k, column, first.b.panel) : in_rows(column, k);
    const Vec<T, 8> read = piece<T>(first.b, offset, where);
    for (int e = 0; e < 8; ++e) it.b[Columns ? k : k + e][Columns ? column + e : column] = to_float(read[e]);
  }
  for (int row = 0; row < 64; ++row) {
    float* const sums = it.d[row];
    for (int column = 0; column < N; ++column) sums[column] = 0.0f;
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < N; ++column) sums[column] += it.a[row][k] * it.b[k][column];
    }
  }
}

// D of the group, once all of its threads have said what they multiply.
template <typename T, int N, bool Columns>
const GroupProduct& product_of(const Factors& factors, Where where) {
  const int group = group_id(), place = machine().current % kGroupThreads;
  if (the_group_products.size() <= static_cast<size_t>(group)) the_group_products.resize(group + 1);
  the_group_products[group].said[place] = factors;
  machine().wait(State::kAtGroup, "multiply", where);
  GroupProduct& it = the_group_products[group];
  if (it.meeting != machine().group_meetings[group]) {
    it.meeting = machine().group_meetings[group];
    fill_product<T, N, Columns>(it, where);
  }
  return it;
}

}  // namespace kgen::sim

namespace kgen {

template <typename T>
struct RowsOperand {
  sim::Placed placed;
};
template <typename T>
struct ColumnsOperand {
  sim::Placed placed;
};

template <typename T>
RowsOperand<T> rows_at(const LdsArray<T>& array, int at, Where where = here()) {
  const int byte = array.byte(at);
  if (byte % 1024 >= 128 || byte % 32 != 0) {
    sim::machine().stop(where, "an operand of rows at byte %d of LDS", byte);
  }
  return {{byte, array.end(), 0}};
}
template <typename T>
ColumnsOperand<T> columns_at(const LdsArray<T>& array, int at, int panel, Where where = here()) {
  const int byte = array.byte(at), bytes = panel * static_cast<int>(sizeof(T));
  if (byte % 1024 != 0 || bytes % 1024 != 0) {
    sim::machine().stop(where, "an operand of columns at byte %d of LDS, its panels %d bytes apart", byte,
                        bytes);
  }
  return {{byte, array.end(), bytes}};
}

namespace sim {

template <int N>
void begin(GroupSums<N>& sums, Where) {
  sums.begin();
}
template <int N>
void end(GroupSums<N>& sums, Where where) {
  sums.end(where);
}
template <int N, int Count>
void begin(GroupSums<N> (&sums)[Count], Where where) {
  for (GroupSums<N>& each : sums) begin(each, where);
}
template <int N, int Count>
void end(GroupSums<N> (&sums)[Count], Where where) {
  for (GroupSums<N>& each : sums) end(each, where);
}
template <typename Operands>
void end(const Operands&, Where) {}

template <typename T>
Factors factors_of(const RowsOperand<T>& a, const Placed& b, bool more, Where) {
  return {a.placed, b, more, Kind::kRows, {}};
}
template <typename T>
Factors factors_of(const ColumnsOperand<T>& a, const Placed& b, bool more, Where) {
  return {a.placed, b, more, Kind::kColumns, {}};
}
template <typename T>
Factors factors_of(const Vec<T, 8>& a, const Placed& b, bool more, Where where) {
  Asking& it = asking();
  int i = 0;
  while (i < it.count && (it.kept[i].at != &a || it.kept[i].batch != it.committed)) ++i;
  if (i == it.count || memcmp(it.kept[i].bytes, &a, sizeof(a)) != 0) {
    machine().stop(where, "multiply: its operand is not as products_begin was told");
  }
  Factors factors = {{}, b, more, Kind::kHeld, {}};
  memcpy(factors.registers, &a, sizeof(a));
  return factors;
}

template <typename T, bool Columns, int N, typename A>
void multiply(GroupSums<N>& sums, const A& a, const Placed& b, bool more, Where where) {
  if (!asking().ready) machine().stop(where, "multiply: there was no products_begin since the last batch");
  const Factors factors = factors_of(a, b, more, where);
  sums.add(product_of<T, N, Columns>(factors, where).d, more, where);
}

}  // namespace sim

template <int N, typename A, typename T>
void multiply(GroupSums<N>& sums, const A& a, const RowsOperand<T>& b, bool more, Where where = here()) {
  sim::multiply<T, false>(sums, a, b.placed, more, where);
}
template <int N, typename A, typename T>
void multiply(GroupSums<N>& sums, const A& a, const ColumnsOperand<T>& b, bool more, Where where = here()) {
  sim::multiply<T, true>(sums, a, b.placed, more, where);
}

template <typename A>
void products_begin(A& a, Where where = here()) {
  sim::begin_products();
  sim::begin(a, where);
}
template <typename A, typename B>
void products_begin(A& a, B& b, Where where = here()) {
  products_begin(a, where);
  sim::begin(b, where);
}
inline void products_commit() {
  ++sim::asking().committed;
  sim::asking().ready = false;
}
template <int Left>
void products_wait(Where where = here()) {
  sim::end_products(Left, where);
}
template <int Left, typename A>
void products_wait(A& a, Where where = here()) {
  sim::end_products(Left, where);
  sim::end(a, where);
}
template <int Left, typename A, typename B>
void products_wait(A& a, B& b, Where where = here()) {
  products_wait<Left>(a, where);
  sim::end(b, where);
}

inline void before_waiting(float) {}

inline void engine_fence() { sim::machine().tell_engine(); }
inline void group_sync(Where where = here()) {
  sim::machine().meet(sim::group_id(), kGroup, "group_sync", where);
}

inline bool group_any(bool mine, Where where = here()) {
  // Of this vote and the one before, which others may not have read yet.
  const int group = sim::group_id(), turn = sim::asking().votes++ % 2;
  if (sim::the_votes.size() <= static_cast<size_t>(group)) sim::the_votes.resize(group + 1);
  sim::the_votes[group].said[turn][sim::machine().current % sim::kGroupThreads] = mine;
  group_sync(where);
  bool any = false;
  for (const bool said : sim::the_votes[group].said[turn]) any |= said;
  return any;
}

template <int N>
void registers_give() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256, "registers are given out by eights");
}
template <int N>
void registers_take() {
  registers_give<N>();
}

}  // namespace kgen

#pragma GCC visibility pop
