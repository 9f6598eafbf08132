// Runs the kernels of a call on the simulator, behind the calling convention of every kgen kernel.
#pragma once

#include "kgen/sim/lds.hpp"
#include "kgen/sim/machine.hpp"
#include "kgen/sim/traffic.hpp"

#define KGEN_EXPORT extern "C" __attribute__((visibility("default"), used))

namespace kgen::sim {

// Whether writes stay after an error, as they do on a GPU; else they are taken back.
inline bool keep_writes = false;

// Whether the blocks of a grid run from the last to the first.
inline bool backwards = false;

// The error word of the call that runs.
inline const int64_t* reported = nullptr;

inline pthread_mutex_t one_call_at_a_time = PTHREAD_MUTEX_INITIALIZER;

// Runs `body` once for every thread of the grid. Stops after a block with a fault, or one that reported
// an error whose call leaves nothing behind.
template <typename Body>
void launch(const char* kernel, Dim grid, int threads, const Body& body) {
  Machine& m = machine();
  m.kernel = kernel;
  m.grid = grid;
  device().forget();
  const auto thread = [](const void* data) { (*static_cast<const Body*>(data))(); };
  const int64_t blocks = grid.x * grid.y * grid.z;
  for (int64_t turn = 0; turn < blocks; ++turn) {
    if (m.fault.found || (*reported != 0 && !keep_writes)) return;
    m.number = backwards ? blocks - 1 - turn : turn;
    m.block = m.block_of(m.number);
    m.run_block(threads, thread, &body);
  }
}

// The tensors of the call that runs by their names, for what is said of faults.
template <int Count>
void name_tensors(const Tensor (&tensors)[Count]) {
  for (const Tensor& each : tensors) device().tensors.push(each);
}

// Runs a call: `kernels(args)` launches what it needs. `words` begins with `abi`, `words` and `error`.
// Returns the error code, 0 when all went well; on any other answer only the error word was written.
template <typename Args, typename Kernels>
int run(const int64_t* words, int64_t abi, int64_t abi_error, int64_t fault_error, const Kernels& kernels) {
  int64_t* const error = reinterpret_cast<int64_t*>(words[2]);
  memset(error, 0, 4 * sizeof(int64_t));
  if (words[0] != abi || words[1] != static_cast<int64_t>(sizeof(Args) / sizeof(int64_t))) {
    error[0] = abi_error;
    return static_cast<int>(abi_error);
  }
  Args args;
  memcpy(static_cast<void*>(&args), words, sizeof(Args));

  pthread_mutex_lock(&one_call_at_a_time);
  Fault& fault = machine().fault;
  fault.found = false;
  fault.message.chars[0] = 0;
  machine().blocks_run = 0;
  traffic().reset();
  banks().reset();
  reported = error;
  device().tensors.clear();
  device().tensors.push({"the error word", words[2]});
  kernels(args);
  machine().release();
  device().forget();
  int64_t found[4] = {fault_error, fault.block, fault.thread, fault.line};
  if (fault.found) {
    fprintf(stderr, "kgen sim: %s\n", fault.message.chars);
  } else {
    memcpy(found, error, sizeof(found));
  }
  if (found[0] != 0 && !keep_writes) traffic().take_back();
  memcpy(error, found, sizeof(found));
  pthread_mutex_unlock(&one_call_at_a_time);
  return static_cast<int>(found[0]);
}

}  // namespace kgen::sim

// What the last call was like, for tests and reports.

KGEN_EXPORT inline const char* kgen_sim_message() { return kgen::sim::machine().fault.message.chars; }

KGEN_EXPORT inline int64_t kgen_sim_counter(const char* name) {
  if (strcmp(name, "bytes_read") == 0) return kgen::sim::traffic().bytes_read;
  if (strcmp(name, "bytes_written") == 0) return kgen::sim::traffic().bytes_written;
  if (strcmp(name, "blocks") == 0) return kgen::sim::machine().blocks_run;
  if (strcmp(name, "lds_conflicts") == 0) return kgen::sim::banks().conflicts();
  if (strcmp(name, "lds_bytes") == 0) return kgen::sim::the_lds.most;
  return -1;
}

KGEN_EXPORT inline void kgen_sim_backwards(int last_first) { kgen::sim::backwards = last_first != 0; }

KGEN_EXPORT inline void kgen_sim_keep_writes(int keep) { kgen::sim::keep_writes = keep != 0; }
