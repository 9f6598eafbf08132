// The dialect GPU templates are written in. A kernel speaks only these words, so that one source runs
// on AMD and Hygon (hip.hpp), on NVIDIA (cuda.hpp) and, checked access by access, on the host CPU (sim/).
//
//   KGEN_KERNEL(threads, blocks) void name(const Args a)
//                                                  a kernel of `threads` threads a block, `blocks` of which
//                                                  should fit a multiprocessor
//   KGEN_UNROLL, KGEN_NO_UNROLL                    unroll the loop that follows, or leave it a loop
//   KGEN_LDS(lds, bytes)                           the block's one shared array; carved by lds.array<T>()
//
//   Global<T>(pointer, elements)                   memory of the call: load, load<N>, store, store<N>;
//                                                  prefetch(at), a hint that the line of `at` will be read;
//                                                  load_uniform(at), where all lanes of the wave take part
//                                                  with one `at`, of what no kernel of the call writes
//   Window<T> from global.window(at, span)         a part of it, at one place for the wave: step, load<N>,
//                                                  step over pages, limit(span);
//                                                  load<N>(place, more): so far behind place(at)
//   kOutside                                       an offset at which no window reads: zeros
//   LdsArray<T>                                    a part of the shared array: the same four
//   Rows<T>, Stage<T, Count>, Array<T>             see stage.hpp
//   KGEN_BOXES, Boxes<T, Rows, Dims>, Landings     see boxes.hpp, where the target has such copies
//   read_tiles, read_tiles_transposed(lds, at)     8 x 8 tiles of LDS, where the target has such reads
//   turn(pair)                                     transposes an 8 x 8 tile that lies in the wave, two
//   elements
//                                                  of 16 bits a lane; likewise
//   Vec<T, N>                                      N values; up to 16 bytes of them move as one access
//   f16, bf16, to_float(x), from_float<T>(x)       storage types; arithmetic is in float
//
//   thread_id() lane_id() block_x() block_y() block_z()                kWave lanes are one wave
//   wave_id()                                      all lanes of the wave take part
//   block_sync()                                   barrier of the block; orders LDS
//   wave_sync()                                    orders LDS among the lanes of a wave
//   keep_order() keep_order(value)                 compilers move no instruction past it; and compute nothing
//                                                  of an int or a vector before it
//   shuffle(x, lane) shuffle_xor<Mask>(x) ballot(p) uniform(i)          all lanes of the wave take part
//   bits_set(b)                                    how many, of what a ballot gave
//   max(a, b) multiply_add(a, b, c)                a * b + c rounded once
//   exp2(x) log2(x)                                the chip's own instructions
//   global.compare_and_swap(at, expected, value)   on int64; gives what was there before
//   global.fetch_add(at, value)                    on int, likewise: every block sees the others' additions
//   device_release()                               what this thread wrote, or had acquired, goes with a
//                                                  fetch_add after it, once its block has met
//   device_acquire()                               this thread sees what went with additions before one of
//                                                  its block, once that has met
//
// Words that touch memory or other lanes end with `Where where = here()`: the simulator's note of the
// line that spoke them, and nothing elsewhere.
#pragma once

#if defined(KGEN_SIM)
#include "kgen/sim/platform.hpp"
#elif defined(__CUDACC__)
#include "kgen/gpu/cuda.hpp"
#else
#include "kgen/gpu/hip.hpp"
#endif

#include "kgen/gpu/error.hpp"
#include "kgen/gpu/softmax.hpp"
#include "kgen/gpu/stage.hpp"
#include "kgen/gpu/wave.hpp"
