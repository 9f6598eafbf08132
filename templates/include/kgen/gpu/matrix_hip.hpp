// Matrix instructions on AMD (MFMA) and Hygon (MMAC). A source for a DCU never contains an MFMA: compilers
// take it, and the chip faults.
//
// Compilers for a DCU know MMAC by one of two builtins, or by neither; then the instruction is written
// out. KGEN_MMAC_ASM asks for that. For compilers that know no DCU, the product is a function without a body
// under KGEN_SYNTAX_ONLY, and text that is never assembled under KGEN_STAND_IN.
#pragma once

namespace kgen {

namespace bits {

typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef short short4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));

}  // namespace bits

#define KGEN_MATRIX_16X16X16(name, T, In, call)                                                    \
  KGEN_DEVICE Vec<float, 4> name(const Vec<T, 4>& a, const Vec<T, 4>& b, const Vec<float, 4>& c) { \
    const auto x = bits::cast<bits::In>(a);                                                        \
    const auto y = bits::cast<bits::In>(b);                                                        \
    auto d = bits::cast<bits::float4>(c);                                                          \
    call;                                                                                          \
    return bits::cast<Vec<float, 4>>(d);                                                           \
  }

#if defined(KGEN_MFMA)

KGEN_MATRIX_16X16X16(mfma_f32_16x16x16_f16, f16, half4,
                     d = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, d, 0, 0, 0))
KGEN_MATRIX_16X16X16(mfma_f32_16x16x16_bf16, bf16, short4,
                     d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, d, 0, 0, 0))

#elif defined(KGEN_SYNTAX_ONLY)

__attribute__((device)) bits::float4 some_product(bits::half4, bits::half4, bits::float4);
__attribute__((device)) bits::float4 some_product(bits::short4, bits::short4, bits::float4);
KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_f16, f16, half4, d = some_product(x, y, d))
KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_bf16, bf16, short4, d = some_product(x, y, d))
KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_f16_lit, f16, half4, d = some_product(x, y, d))
KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_bf16_lit, bf16, short4, d = some_product(x, y, d))

#elif defined(KGEN_STAND_IN)

#define KGEN_STAND_IN_MMAC(name, T, In, text) \
  KGEN_MATRIX_16X16X16(name, T, In, asm(text " %0, %1, %2, %0" : "+v"(d) : "v"(x), "v"(y)))
KGEN_STAND_IN_MMAC(mmac_f32_16x16x16_f16, f16, half4, "v_mmac_f32_16x16x16_f16")
KGEN_STAND_IN_MMAC(mmac_f32_16x16x16_bf16, bf16, short4, "v_mmac_f32_16x16x16_bf16")
KGEN_STAND_IN_MMAC(mmac_f32_16x16x16_f16_lit, f16, half4, "v_mmac_f32_16x16x16_f16_lit")
KGEN_STAND_IN_MMAC(mmac_f32_16x16x16_bf16_lit, bf16, short4, "v_mmac_f32_16x16x16_bf16_lit")
#undef KGEN_STAND_IN_MMAC

#elif !defined(KGEN_MMAC_ASM) && __has_builtin(__builtin_hcu_mmac_f32_16x16x16_f16)

KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_f16, f16, half4, d = __builtin_hcu_mmac_f32_16x16x16_f16(x, y, d))
KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_bf16, bf16, short4, d = __builtin_hcu_mmac_f32_16x16x16_bf16(x, y, d))

#elif !defined(KGEN_MMAC_ASM) && __has_builtin(__builtin_amdgcn_mmac_f32_16x16x16f16)

KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_f16, f16, half4, d = __builtin_amdgcn_mmac_f32_16x16x16f16(x, y, d))
KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_bf16, bf16, short4,
                     d = __builtin_amdgcn_mmac_f32_16x16x16bf16(x, y, d))

#else

KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_f16, f16, half4,
                     asm("v_mmac_f32_16x16x16_f16 %0, %1, %2, %0" : "+v"(d) : "v"(x), "v"(y)))
KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_bf16, bf16, short4,
                     asm("v_mmac_f32_16x16x16_bf16 %0, %1, %2, %0" : "+v"(d) : "v"(x), "v"(y)))

#endif

// The forms of gfx938 that choose how D lies have no spelling but the builtin: where a compiler lacks it,
// a source that asks for one does not compile. KGEN_MMAC_LIT says that it is there all the same.
#if !defined(KGEN_MFMA) && !defined(KGEN_SYNTAX_ONLY) && !defined(KGEN_STAND_IN) && \
    (defined(KGEN_MMAC_LIT) || __has_builtin(__builtin_hcu_mmac_f32_16x16x16_f16_lit_lts))

KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_f16_lit, f16, half4,
                     d = __builtin_hcu_mmac_f32_16x16x16_f16_lit_lts(x, y, d, true, false))
KGEN_MATRIX_16X16X16(mmac_f32_16x16x16_bf16_lit, bf16, short4,
                     d = __builtin_hcu_mmac_f32_16x16x16_bf16_lit_lts(x, y, d, true, false))

#endif

}  // namespace kgen
