// Matrix instructions on NVIDIA: mma.sync.
#pragma once

namespace kgen {

#define KGEN_MMA_M16N8K16(name, T, types)                                                          \
  KGEN_DEVICE Vec<float, 4> name(const Vec<T, 8>& a, const Vec<T, 4>& b, const Vec<float, 4>& c) { \
    const uint4 x = bits::cast<uint4>(a);                                                          \
    const uint2 y = bits::cast<uint2>(b);                                                          \
    Vec<float, 4> d = c;                                                                           \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." types                                             \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                     \
        : "+f"(d.at[0]), "+f"(d.at[1]), "+f"(d.at[2]), "+f"(d.at[3])                               \
        : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y));                             \
    return d;                                                                                      \
  }

KGEN_MMA_M16N8K16(mma_m16n8k16_f16, f16, "f16.f16")
KGEN_MMA_M16N8K16(mma_m16n8k16_bf16, bf16, "bf16.bf16")

}  // namespace kgen
