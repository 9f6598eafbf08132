// The little of a standard library the simulator needs. The standard headers themselves would triple the
// time a simulated kernel takes to compile.
#pragma once

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(__x86_64__) || defined(KGEN_SIM_PORTABLE)
#include <ucontext.h>
#endif

#pragma GCC visibility push(hidden)  // two simulated kernels in one process share nothing

namespace kgen::sim {

[[noreturn]] inline void out_of_memory(const char* what) {
  fprintf(stderr, "kgen sim: no memory for %s\n", what);
  abort();
}

// An array that grows and keeps its values; new ones are zero.
template <typename T>
class Array {
 public:
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { release(); }

  T* begin() { return items_; }
  T* end() { return items_ + size_; }
  T& operator[](size_t i) { return items_[i]; }
  size_t size() const { return size_; }
  void clear() { size_ = 0; }
  // Gives its memory back too.
  void release() {
    free(items_);
    items_ = nullptr;
    size_ = capacity_ = 0;
  }

  void resize(size_t size) {
    if (size > capacity_) reserve(size);
    if (size > size_) memset(static_cast<void*>(items_ + size_), 0, (size - size_) * sizeof(T));
    size_ = size;
  }

  void push(const T& item) {
    if (size_ == capacity_) reserve(capacity_ * 2 + 64);
    items_[size_++] = item;
  }

 private:
  void reserve(size_t capacity) {
    items_ = static_cast<T*>(realloc(static_cast<void*>(items_), capacity * sizeof(T)));
    if (items_ == nullptr) out_of_memory("an array");
    capacity_ = capacity;
  }

  T* items_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

// A line of text, cut where it grows too long.
struct Text {
  char chars[512] = "";

  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    va_list values;
    va_start(values, format);
    add(format, values);
    va_end(values);
  }

  void add(const char* format, va_list values) {
    const size_t used = strlen(chars);
    vsnprintf(chars + used, sizeof(chars) - used, format, values);
  }
};

}  // namespace kgen::sim

#pragma GCC visibility pop
