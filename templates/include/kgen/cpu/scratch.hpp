// Memory a launch works in: one arena for each calling thread, kept from call to call.
#pragma once

#include <cstdlib>

namespace kgen {

class Scratch {
 public:
  static constexpr size_t kAlign = 64;

  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(memory_); }

  /// At least `bytes` of aligned memory with arbitrary content, valid until the next call.
  void* reserve(size_t bytes) {
    if (bytes > size_) {
      std::free(memory_);
      size_ = (bytes + kAlign - 1) / kAlign * kAlign;
      memory_ = std::aligned_alloc(kAlign, size_);
      if (!memory_) std::abort();
    }
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

/// Hands out consecutive aligned pieces of a block of memory; with no block it only measures.
class Carver {
 public:
  explicit Carver(void* memory = nullptr) : memory_(static_cast<char*>(memory)) {}

  template <class T>
  T* take(size_t count) {
    T* piece = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += (count * sizeof(T) + Scratch::kAlign - 1) / Scratch::kAlign * Scratch::kAlign;
    return piece;
  }

  size_t used() const { return used_; }

 private:
  char* memory_;
  size_t used_ = 0;
};

}  // namespace kgen
