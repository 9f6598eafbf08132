// Products of groups on NVIDIA: wgmma, for which a group is a warpgroup.
#pragma once

namespace kgen {

// Keeps the compiler from moving what is done with a register across this point.
KGEN_DEVICE void pin(float& value) { asm volatile("" : "+f"(value)::"memory"); }
KGEN_DEVICE void pin(uint32_t& word) { asm volatile("" : "+r"(word)::"memory"); }

template <int N>
struct GroupSums {
  float values[N / 2];

  KGEN_DEVICE float& at(int e) { return values[e]; }
  KGEN_DEVICE float at(int e) const { return values[e]; }
};

template <int N>
KGEN_DEVICE void pin(GroupSums<N>& sums) {
  KGEN_UNROLL
  for (int e = 0; e < N / 2; ++e) pin(sums.values[e]);
}
template <int N, int Count>
KGEN_DEVICE void pin(GroupSums<N> (&sums)[Count]) {
  KGEN_UNROLL
  for (int i = 0; i < Count; ++i) pin(sums[i]);
}
template <typename T>
KGEN_DEVICE void pin(Vec<T, 8>& operand) {
  uint4 words = bits::cast<uint4>(operand);
  pin(words.x), pin(words.y), pin(words.z), pin(words.w);
  operand = bits::cast<Vec<T, 8>>(words);
}
template <typename T, int Count>
KGEN_DEVICE void pin(Vec<T, 8> (&operands)[Count]) {
  KGEN_UNROLL
  for (int i = 0; i < Count; ++i) pin(operands[i]);
}

// The descriptor of an operand: in units of 16 bytes where it begins, how far panels and groups of 8 rows are
// apart; and that its rows are swizzled over 128 bytes. Operands of an array differ by a sum alone.
template <typename T>
KGEN_DEVICE uint64_t descriptor(const LdsArray<T>& array, int at, unsigned panel_bytes) {
  constexpr uint64_t kGroupOfRows = 1024 / 16, kSwizzled = 1;
  const unsigned place = (array.address(0) >> 4) + static_cast<unsigned>(at) * sizeof(T) / 16;
  return place | static_cast<uint64_t>(panel_bytes >> 4) << 16 | kGroupOfRows << 32 | kSwizzled << 62;
}

// Columns: whether its rows are columns there.
template <typename T, int Columns>
struct LdsOperand {
  static constexpr int kColumns = Columns;
  uint64_t words;
};

template <typename T>
KGEN_DEVICE LdsOperand<T, 0> rows_at(const LdsArray<T>& array, int at) {
  return {descriptor(array, at, 16)};
}
template <typename T>
KGEN_DEVICE LdsOperand<T, 1> columns_at(const LdsArray<T>& array, int at, int panel) {
  return {descriptor(array, at, panel * static_cast<unsigned>(sizeof(T)))};
}

template <typename... Kept>
KGEN_DEVICE void products_begin(Kept&... kept) {
  (pin(kept), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
KGEN_DEVICE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Left, typename... Kept>
KGEN_DEVICE void products_wait(Kept&... kept) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
  (pin(kept), ...);
}

// Waits move ahead of whatever they do not depend on, but not past a barrier: one of all lanes, which is not
// known before `value` is.
KGEN_DEVICE void before_waiting(float value) {
  asm volatile("bar.warp.sync %0;" ::"r"(value < 0.0f ? 0u : 0xffffffffu) : "memory");
}

// The sums as operands of an instruction, and their names in its text.
#define KGEN_SUMS_4(i) \
  "+f"(sums.values[i]), "+f"(sums.values[i + 1]), "+f"(sums.values[i + 2]), "+f"(sums.values[i + 3])
#define KGEN_SUMS_8(i) KGEN_SUMS_4(i), KGEN_SUMS_4(i + 4)
#define KGEN_SUMS_12(i) KGEN_SUMS_8(i), KGEN_SUMS_4(i + 8)
#define KGEN_SUMS_16(i) KGEN_SUMS_8(i), KGEN_SUMS_8(i + 8)
#define KGEN_SUMS_24(i) KGEN_SUMS_16(i), KGEN_SUMS_8(i + 16)
#define KGEN_SUMS_32(i) KGEN_SUMS_16(i), KGEN_SUMS_16(i + 16)
#define KGEN_SUMS_40(i) KGEN_SUMS_32(i), KGEN_SUMS_8(i + 32)
#define KGEN_SUMS_56(i) KGEN_SUMS_40(i), KGEN_SUMS_16(i + 40)
#define KGEN_SUMS_64(i) KGEN_SUMS_32(i), KGEN_SUMS_32(i + 32)
#define KGEN_SUMS_88(i) KGEN_SUMS_64(i), KGEN_SUMS_16(i + 64), KGEN_SUMS_8(i + 80)
#define KGEN_SUMS_96(i) KGEN_SUMS_64(i), KGEN_SUMS_32(i + 64)
#define KGEN_SUMS_128(i) KGEN_SUMS_64(i), KGEN_SUMS_64(i + 64)
#define KGEN_NAMES_4 "%0, %1, %2, %3"
#define KGEN_NAMES_8 KGEN_NAMES_4 ", %4, %5, %6, %7"
#define KGEN_NAMES_12 KGEN_NAMES_8 ", %8, %9, %10, %11"
#define KGEN_NAMES_16 KGEN_NAMES_12 ", %12, %13, %14, %15"
#define KGEN_NAMES_24 KGEN_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define KGEN_NAMES_32 KGEN_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define KGEN_NAMES_40 \
  KGEN_NAMES_32       \
  ", "                \
  "%32, %33, %34, %35, %36, %37, %38, %39"
#define KGEN_NAMES_56 \
  KGEN_NAMES_40       \
  ", "                \
  "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55"
#define KGEN_NAMES_64 \
  KGEN_NAMES_56       \
  ", "                \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define KGEN_NAMES_88                                                      \
  KGEN_NAMES_64                                                            \
  ", "                                                                     \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, " \
  "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87"
#define KGEN_NAMES_96 \
  KGEN_NAMES_88       \
  ", "                \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define KGEN_NAMES_128                                                                           \
  KGEN_NAMES_96                                                                                  \
  ", "                                                                                           \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define KGEN_INPUT(i) "%" #i
// D = A B (+ D), of A from shared memory and from registers: count is that of a thread's sums, and the
// operands behind these have the numbers i0 and following.
#define KGEN_GROUP_PRODUCT(columns, count, T, type, i0, i1, i2, i3, i4, i5, i6)                             \
  template <int OfA, typename B>                                                                            \
  KGEN_DEVICE void multiply(GroupSums<columns>& sums, const LdsOperand<T, OfA>& a, const B& b, bool more) { \
    asm volatile(                                                                                    \
        "{\n.reg .pred more;\nsetp.ne.b32 more, " KGEN_INPUT(i2)                                      \
        ", 0;\n"                                                                                     \
        "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" KGEN_NAMES_##count  \
        "}, " KGEN_INPUT(i0) ", " KGEN_INPUT(i1) ", more, 1, 1, " KGEN_INPUT(i3) ", " KGEN_INPUT(i4) ";\n}" \
        : KGEN_SUMS_##count(0)                                                                       \
        : "l"(a.words), "l"(b.words), "r"(static_cast<int>(more)), "n"(OfA), "n"(B::kColumns)                  \
        : "memory");      \
  }                                                                                                         \
  template <typename B>                                                                                     \
  KGEN_DEVICE void multiply(GroupSums<columns>& sums, const Vec<T, 8>& a, const B& b, bool more) {          \
    const uint4 words = bits::cast<uint4>(a);                                                               \
    asm volatile(                                                                                    \
        "{\n.reg .pred more;\nsetp.ne.b32 more, " KGEN_INPUT(i5)                                      \
        ", 0;\n"                                                                                     \
        "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" KGEN_NAMES_##count  \
        "}, {" KGEN_INPUT(i0) ", " KGEN_INPUT(i1) ", " KGEN_INPUT(i2) ", " KGEN_INPUT(i3)            \
        "}, " KGEN_INPUT(i4) ", more, 1, 1, " KGEN_INPUT(i6) ";\n}"                                   \
        : KGEN_SUMS_##count(0)                                                                       \
        : "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w), "l"(b.words),                      \
          "r"(static_cast<int>(more)), "n"(B::kColumns)                                              \
        : "memory");      \
  }
#define KGEN_GROUP_PRODUCTS(columns, count, ...)              \
  KGEN_GROUP_PRODUCT(columns, count, f16, "f16", __VA_ARGS__) \
  KGEN_GROUP_PRODUCT(columns, count, bf16, "bf16", __VA_ARGS__)
KGEN_GROUP_PRODUCTS(8, 4, 4, 5, 6, 7, 8, 9, 10)
KGEN_GROUP_PRODUCTS(16, 8, 8, 9, 10, 11, 12, 13, 14)
KGEN_GROUP_PRODUCTS(24, 12, 12, 13, 14, 15, 16, 17, 18)
KGEN_GROUP_PRODUCTS(32, 16, 16, 17, 18, 19, 20, 21, 22)
KGEN_GROUP_PRODUCTS(48, 24, 24, 25, 26, 27, 28, 29, 30)
KGEN_GROUP_PRODUCTS(64, 32, 32, 33, 34, 35, 36, 37, 38)
KGEN_GROUP_PRODUCTS(80, 40, 40, 41, 42, 43, 44, 45, 46)
KGEN_GROUP_PRODUCTS(112, 56, 56, 57, 58, 59, 60, 61, 62)
KGEN_GROUP_PRODUCTS(128, 64, 64, 65, 66, 67, 68, 69, 70)
KGEN_GROUP_PRODUCTS(176, 88, 88, 89, 90, 91, 92, 93, 94)
KGEN_GROUP_PRODUCTS(192, 96, 96, 97, 98, 99, 100, 101, 102)
KGEN_GROUP_PRODUCTS(256, 128, 128, 129, 130, 131, 132, 133, 134)

KGEN_DEVICE void engine_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Named barriers: 0 is that of the block.
constexpr int kGroupBarriers = 1;
KGEN_DEVICE void group_sync() {
  asm volatile("bar.sync %0, %1;" ::"r"(kGroupBarriers + thread_id() / kGroup), "n"(kGroup) : "memory");
}
KGEN_DEVICE bool group_any(bool mine) {
  int any;
  asm volatile(
      "{\n.reg .pred mine, any;\nsetp.ne.b32 mine, %1, 0;\n"
      "barrier.cta.red.or.pred.aligned any, %2, %3, mine;\nselp.b32 %0, 1, 0, any;\n}"
      : "=r"(any)
      : "r"(static_cast<int>(mine)), "r"(kGroupBarriers + thread_id() / kGroup), "n"(kGroup)
      : "memory");
  return any != 0;
}

template <int N>
KGEN_DEVICE void registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
KGEN_DEVICE void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

}  // namespace kgen
