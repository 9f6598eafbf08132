// Storage types and register vectors. Included by a back end once it has defined KGEN_DEVICE.
#pragma once

#include <stdint.h>

namespace kgen {

struct f16 {
  uint16_t bits;
};

struct bf16 {
  uint16_t bits;
};

// An element past every window, with room to add to it.
constexpr int kOutside = 1 << 28;

constexpr int vector_alignment(int bytes, int of_element) {
  const bool power_of_two = (bytes & (bytes - 1)) == 0;
  return !power_of_two ? of_element : bytes < 16 ? bytes : 16;
}

template <typename T, int N>
struct alignas(vector_alignment(sizeof(T) * N, alignof(T))) Vec {
  T at[N];

  KGEN_DEVICE T& operator[](int i) { return at[i]; }
  KGEN_DEVICE const T& operator[](int i) const { return at[i]; }
};

template <typename T, int N>
KGEN_DEVICE Vec<T, N> splat(T value) {
  Vec<T, N> all;
  KGEN_UNROLL
  for (int i = 0; i < N; ++i) all[i] = value;
  return all;
}

namespace bits {

template <typename To, typename From>
KGEN_DEVICE To cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// f32 to bf16. KGEN_BF16_HALF_UP: half away from zero, as Hygon DCUs round; else half to even.
KGEN_DEVICE uint16_t bf16_of(float value) {
  const uint32_t word = cast<uint32_t>(value);
#if defined(KGEN_BF16_HALF_UP)
  const uint32_t rounded = word + 0x8000u;
#else
  const uint32_t rounded = word + 0x7fffu + (word >> 16 & 1);
#endif
  const uint32_t quiet = word | 0x400000u;
  return static_cast<uint16_t>((value != value ? quiet : rounded) >> 16);
}

}  // namespace bits

// A word of the argument block that holds the bits of a double.
KGEN_DEVICE double real(int64_t word) { return bits::cast<double>(word); }

KGEN_DEVICE float to_float(float value) { return value; }
KGEN_DEVICE float to_float(bf16 value) { return bits::cast<float>(static_cast<uint32_t>(value.bits) << 16); }
KGEN_DEVICE float to_float(f16 value);  // by the back end

template <typename T>
KGEN_DEVICE T from_float(float value);
template <>
KGEN_DEVICE float from_float<float>(float value) {
  return value;
}
template <>
KGEN_DEVICE bf16 from_float<bf16>(float value);  // by the back end, as that of f16
template <>
KGEN_DEVICE f16 from_float<f16>(float value);

// Of a number. A NaN must make itself felt elsewhere: of some of them other values come out.
template <typename T>
KGEN_DEVICE T from_number(float value) {
  return from_float<T>(value);
}
#if !defined(__CUDACC__)
template <>
KGEN_DEVICE bf16 from_number<bf16>(float value) {
  return {static_cast<uint16_t>((bits::cast<uint32_t>(value) + 0x8000u) >> 16)};  // half away from zero
}
#endif

// Two at once, where the chip has an instruction for that.
template <typename T>
KGEN_DEVICE Vec<T, 2> from_floats(float a, float b) {
  return {{from_float<T>(a), from_float<T>(b)}};
}

template <typename T, int N>
KGEN_DEVICE Vec<float, N> to_float(const Vec<T, N>& values) {
  Vec<float, N> wide;
  KGEN_UNROLL
  for (int i = 0; i < N; ++i) wide[i] = to_float(values[i]);
  return wide;
}

template <typename T, int N>
KGEN_DEVICE Vec<T, N> from_float(const Vec<float, N>& values) {
  Vec<T, N> narrow;
  KGEN_UNROLL
  for (int i = 0; i + 1 < N; i += 2) {
    const Vec<T, 2> pair = from_floats<T>(values[i], values[i + 1]);
    narrow[i] = pair[0];
    narrow[i + 1] = pair[1];
  }
  if (N % 2 != 0) narrow[N - 1] = from_float<T>(values[N - 1]);
  return narrow;
}

template <int N>
KGEN_DEVICE Vec<float, N> scaled(Vec<float, N> values, float factor) {
  KGEN_UNROLL
  for (int i = 0; i < N; ++i) values[i] *= factor;
  return values;
}

// The value under a mask of all ones, 0 under one of zeros, whatever the value: without a branch.
KGEN_DEVICE float masked(float value, uint32_t mask) {
  return bits::cast<float>(bits::cast<uint32_t>(value) & mask);
}

// All ones over the first `count` elements of a Vec<T, N>, zeros over the rest.
template <typename T, int N>
struct Mask {
  uint32_t words[sizeof(T) * N / 4];
};

template <typename T, int N>
KGEN_DEVICE Mask<T, N> first_elements(int count) {
  constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  const int bits = (count < N ? count : N) * kBits;
  Mask<T, N> mask;
  KGEN_UNROLL
  for (int w = 0; w < kBits * N / 32; ++w) {
    const int ones = bits - 32 * w;
    mask.words[w] = ones <= 0 ? 0 : ones >= 32 ? ~0u : (1u << ones) - 1;
  }
  return mask;
}

// The elements under ones, 0 for the others, whatever they hold. In whole words: a choice element by
// element would break the load up that brings them.
template <typename T, int N>
KGEN_DEVICE Vec<T, N> masked(const Vec<T, N>& values, const Mask<T, N>& mask) {
  Mask<T, N> kept = bits::cast<Mask<T, N>>(values);
  KGEN_UNROLL
  for (int w = 0; w < static_cast<int>(sizeof(T)) * N / 4; ++w) kept.words[w] &= mask.words[w];
  return bits::cast<Vec<T, N>>(kept);
}

template <int N>
KGEN_DEVICE float dot(const Vec<float, N>& a, const Vec<float, N>& b) {
  float sum = 0.0f;
  KGEN_UNROLL
  for (int i = 0; i < N; ++i) sum += a[i] * b[i];
  return sum;
}

// Elements first .. first + Count - 1.
template <int Count, int N>
KGEN_DEVICE Vec<float, Count> slice(const Vec<float, N>& values, int first) {
  Vec<float, Count> part;
  KGEN_UNROLL
  for (int i = 0; i < Count; ++i) part[i] = values[first + i];
  return part;
}

}  // namespace kgen
