// The stacks of fibres: address space only, until it is used; the lowest page of each is a guard.
#pragma once

#include "kgen/sim/support.hpp"

namespace kgen::sim {

class Stacks {
 public:
  static constexpr size_t kBytes = 256 * 1024;
  static constexpr size_t kGuard = 4096;
  static constexpr size_t kUsable = kBytes - kGuard;

  ~Stacks() { release(); }

  // The end of one, where it begins to grow.
  char* top(int thread) const { return memory_ + (thread + 1) * kBytes; }

  // At least `count`.
  void make(int count) {
    if (count <= count_) return;
    release();
    void* memory = mmap(nullptr, count * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) out_of_memory("the stacks of a block");
    memory_ = static_cast<char*>(memory);
    count_ = count;
    for (int i = 0; i < count; ++i) mprotect(memory_ + i * kBytes, kGuard, PROT_NONE);
  }

  // Gives them back: with their guards they are two mappings a thread, of which a process has only so many
  // for all the kernels it has loaded.
  void release() {
    if (memory_ != nullptr) munmap(memory_, count_ * kBytes);
    memory_ = nullptr;
    count_ = 0;
  }

 private:
  char* memory_ = nullptr;
  int count_ = 0;
};

}  // namespace kgen::sim
