// The 8-bit floats of the dialect as functions of arrays, for the tests.
#define KGEN_WAVE 64
#define KGEN_LDS_LIMIT 65536
#include "kgen/gpu/fp8.hpp"

#define EXPORT extern "C" __attribute__((visibility("default"))) void

using kgen::Vec;

// `count` codes, 16 at a time.
template <typename To, typename Code>
static void widen(const Code* codes, To* wide, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    Vec<Code, 16> narrow;
    memcpy(&narrow, codes + i, sizeof narrow);
    const auto values = kgen::widen<To>(narrow);
    memcpy(wide + i, &values, sizeof values);
  }
}

// The same with four rows of 16 codes at a time, read column by column and put back in order.
template <typename To, typename Code>
static void widen_by_columns(const Code* codes, To* wide, int64_t count) {
  for (int64_t i = 0; i < count; i += 64) {
    Vec<Code, 16> rows[4];
    Vec<To, 4> columns[16];
    memcpy(rows, codes + i, sizeof rows);
    kgen::widen_columns(rows, columns);
    for (int r = 0; r < 4; ++r) {
      for (int c = 0; c < 16; ++c) wide[i + 16 * r + c] = columns[c][r];
    }
  }
}

template <typename Code>
static void singly(const Code* codes, float* wide, int64_t count) {
  for (int64_t i = 0; i < count; ++i) wide[i] = kgen::to_float(codes[i]);
}

template <typename Code>
static void round_all(const float* values, Code* codes, int64_t count) {
  for (int64_t i = 0; i < count; i += 2) {
    const auto pair = kgen::from_float<Code>(Vec<float, 2>{{values[i], values[i + 1]}});
    codes[i] = pair[0];
    codes[i + 1] = kgen::from_float<Code>(values[i + 1]);
    if (codes[i + 1].bits != pair[1].bits) codes[i + 1].bits = static_cast<uint8_t>(~pair[1].bits);
  }
}

#define EXPORTS(code)                                                                                   \
  EXPORT code##_f32(const kgen::code* from, float* to, int64_t count) { widen(from, to, count); }       \
  EXPORT code##_f16(const kgen::code* from, kgen::f16* to, int64_t count) { widen(from, to, count); }   \
  EXPORT code##_bf16(const kgen::code* from, kgen::bf16* to, int64_t count) { widen(from, to, count); } \
  EXPORT code##_columns_f16(const kgen::code* from, kgen::f16* to, int64_t count) {                     \
    widen_by_columns(from, to, count);                                                                  \
  }                                                                                                     \
  EXPORT code##_columns_bf16(const kgen::code* from, kgen::bf16* to, int64_t count) {                   \
    widen_by_columns(from, to, count);                                                                  \
  }                                                                                                     \
  EXPORT code##_singly(const kgen::code* from, float* to, int64_t count) { singly(from, to, count); }   \
  EXPORT code##_round(const float* from, kgen::code* to, int64_t count) { round_all(from, to, count); }
EXPORTS(fp8_e4m3)
EXPORTS(fp8_e5m2)
