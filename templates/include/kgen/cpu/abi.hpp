// The argument block: int64 words that hold pointers, integers and the bits of doubles.
#pragma once

#include "kgen/cpu/base.hpp"

namespace kgen {

inline constexpr int64_t kAbiVersion = 1;

template <class T>
T* pointer(int64_t word) {
  return reinterpret_cast<T*>(static_cast<intptr_t>(word));
}

inline double real(int64_t word) {
  double value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// Tells the caller what is wrong and gives the code to return. Nothing may be written before.
template <class Args>
int fail(const Args& a, int code, int64_t row, int64_t index, int64_t value) {
  if (int64_t* error = pointer<int64_t>(a.error)) {
    error[0] = code;
    error[1] = row;
    error[2] = index;
    error[3] = value;
  }
  return code;
}

/// Whether the block was filled for this version of the kernel.
template <class Args>
bool fits(const Args& a) {
  return a.abi == kAbiVersion && a.words == static_cast<int64_t>(sizeof(Args) / sizeof(int64_t));
}

}  // namespace kgen
