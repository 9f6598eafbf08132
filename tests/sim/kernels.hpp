// What sources of test kernels share. `kBlocks` and `kThreads` come before it: every entry runs so many
// blocks of so many threads over `data`, `count` words of it valid. A kernel that is faulty marks the line it
// must be caught at with `FAULT`.
#pragma once

#include "kgen/gpu/dialect.hpp"

struct Args {
  int64_t abi, words, error, data, count;
};

using kgen::Global;
using kgen::Vec;

#define KERNEL(name)                                                                       \
  KGEN_KERNEL(kThreads, 1) void name(const Args a);                                        \
  extern "C" __attribute__((visibility("default"))) int run_##name(const int64_t* words) { \
    return kgen::sim::run<Args>(words, 1, 1, 7, [](const Args& a) {                        \
      kgen::sim::name_tensors({{"data", a.data}});                                         \
      kgen::sim::launch(#name, {kBlocks, 1, 1}, kThreads, [&] { name(a); });               \
    });                                                                                    \
  }                                                                                        \
  KGEN_KERNEL(kThreads, 1) void name([[maybe_unused]] const Args a)

[[maybe_unused]] static Global<int> ints(const Args& a) { return {a.data, a.count}; }
[[maybe_unused]] static Global<float> floats(const Args& a) { return {a.data, a.count}; }
static int t() { return kgen::thread_id(); }
