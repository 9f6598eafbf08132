// Products of a group of four waves: 64 rows at once, with operands that are read from shared memory while
// the waves go on.
//
//   kGroup                             threads of a group; the first of them is a multiple of it
//   GroupSums<N> sums                  64 x N sums of a group, N / 2 of them in each thread
//   sums.at(e)                         one of them: of the 16 rows of its wave sums_row(lane, e), of the
//                                      columns sums_column(lane, e)
//   rows_at(array, at)                 an operand in shared memory: rows of 16 elements, each 64 elements
//                                      behind the one before
//   columns_at(array, at, panel)       one of 16 such rows, as long as there are columns: 64 of them from
//                                      `at` on, the next 64 `panel` elements farther
//   products_begin(kept...)            what has been put into these registers is there for products: sums or
//                                      arrays of them, and operands, which are Vec<T, 8> or arrays of them
//   multiply(sums, a, b, more)         sums = A B, and the sums before where there are `more`, of f16 or
//                                      bf16. A is rows, or columns_at, which are its rows, or of each thread
//                                      a Vec<T, 8>: those 8 of the 16 x 16 elements of its wave that it had
//                                      of sums. B is N rows, which are its columns, or columns_at
//   products_commit()                  what was asked for since the last is a batch
//   products_wait<Left>(kept...)       until only the last Left batches are under way; these registers, of
//                                      the others, are the lanes' own again
//   before_waiting(value)              a sum of a lane, at least 0, and what it is made of are computed
//                                      before the next products_wait, which compilers else put ahead of
//                                      them
//   engine_fence()                     what this thread has stored into shared memory is there for products
//                                      and the copy engine, of those that learn of it afterwards
//   group_sync()                       barrier of a group; orders shared memory
//   group_any(mine)                    the same, and whether it is true of any thread
//   registers_give<N>(), registers_take<N>()
//                                      threads of the group go on with N registers each: some are given
//                                      back, or taken of what others gave
//
// All threads of a group speak these words alike, but for engine_fence. From begin to wait registers that
// take part are left alone, and so are operands in shared memory. Rows lie there as in boxes.hpp: in a panel
// of Rows rows of 64 elements, which begins at a multiple of 1024 bytes, element (row, dim) is at
// in_box<Rows>. An operand of rows begins at a multiple of 8 rows and 16 elements, one of columns at one of 8
// rows.
#pragma once

namespace kgen {

constexpr int kGroup = 4 * kWave;

KGEN_DEVICE constexpr int sums_row(int lane, int e) { return lane / 4 + e / 2 % 2 * 8; }
KGEN_DEVICE constexpr int sums_column(int lane, int e) { return e / 4 * 8 + lane % 4 * 2 + e % 2; }

}  // namespace kgen

#if defined(KGEN_SIM)
#include "kgen/sim/groups.hpp"
#elif defined(__CUDACC__)
#include "kgen/gpu/groups_cuda.hpp"
#endif
