// The dialect on AMD and Hygon, through the compiler's builtins alone: no ROCm header, no device library.
#pragma once

#define KGEN_DEVICE __attribute__((device, always_inline)) inline
#define KGEN_UNROLL _Pragma("unroll")
#define KGEN_NO_UNROLL _Pragma("unroll 1")
#if defined(KGEN_STAND_IN)  // whose registers hold one wave of so many
#define KGEN_WAVES(threads, blocks) 1
#else
#define KGEN_WAVES(threads, blocks) (((blocks) * (threads) + 255) / 256)
#endif
#define KGEN_KERNEL(threads, blocks)                                                                      \
  extern "C" __attribute__((global, visibility("default"), amdgpu_flat_work_group_size(threads, threads), \
                            amdgpu_waves_per_eu(KGEN_WAVES(threads, blocks))))
#define KGEN_LDS(name, size)                                               \
  __attribute__((shared, aligned(16))) unsigned char name##_storage[size]; \
  const kgen::Lds name { (kgen::lds_byte*)name##_storage }
#define KGEN_GLOBAL_MEMORY __attribute__((address_space(1)))
#define KGEN_LOCAL_MEMORY __attribute__((address_space(3)))
#define KGEN_CONSTANT_MEMORY __attribute__((address_space(4)))

#include "kgen/gpu/types.hpp"

namespace kgen {

constexpr int kWave = KGEN_WAVE;
typedef KGEN_LOCAL_MEMORY unsigned char lds_byte;

struct Where {};
KGEN_DEVICE constexpr Where here() { return {}; }

namespace bits {

// What one access of so many bytes moves.
template <int Bytes>
struct Word;
template <>
struct Word<1> {
  typedef uint8_t type;
};
template <>
struct Word<2> {
  typedef uint16_t type;
};
template <>
struct Word<4> {
  typedef uint32_t type;
};
template <>
struct Word<8> {
  typedef uint32_t type __attribute__((ext_vector_type(2)));
};
template <>
struct Word<16> {
  typedef uint32_t type __attribute__((ext_vector_type(4)));
};

// So many bytes (8 or 16) of a window of `bytes` on memory from `base` on.
template <int Bytes>
KGEN_DEVICE typename Word<Bytes>::type load_words(int64_t base, int bytes, int from);
#if __has_builtin(__builtin_amdgcn_make_buffer_rsrc)
#define KGEN_LOAD_WORDS(count, older, newer)                                                                 \
  template <>                                                                                                \
  KGEN_DEVICE Word<count>::type load_words<count>(int64_t base, int bytes, int from) {                       \
    const auto descriptor = __builtin_amdgcn_make_buffer_rsrc((void*)base, 0, bytes, KGEN_DESCRIPTOR_WORD3); \
    return newer(descriptor, from, 0, 0);                                                                    \
  }
#else  // an older compiler: the same instructions by their names in the compiler's own language
typedef int words4 __attribute__((ext_vector_type(4)));
typedef int words2 __attribute__((ext_vector_type(2)));
__attribute__((device)) words4 raw_load_16(words4, int, int, int) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
__attribute__((device)) words2 raw_load_8(words4, int, int, int) __asm("llvm.amdgcn.raw.buffer.load.v2i32");
#define KGEN_LOAD_WORDS(count, older, newer)                                                         \
  template <>                                                                                        \
  KGEN_DEVICE Word<count>::type load_words<count>(int64_t base, int bytes, int from) {               \
    const words4 descriptor = {static_cast<int>(base), static_cast<int>(base >> 32 & 0xffff), bytes, \
                               KGEN_DESCRIPTOR_WORD3};                                               \
    return cast<Word<count>::type>(older(descriptor, from, 0, 0));                                   \
  }
#endif
KGEN_LOAD_WORDS(8, raw_load_8, __builtin_amdgcn_raw_buffer_load_b64)
KGEN_LOAD_WORDS(16, raw_load_16, __builtin_amdgcn_raw_buffer_load_b128)
#undef KGEN_LOAD_WORDS

}  // namespace bits

// ---- numbers

KGEN_DEVICE float to_float(f16 value) { return static_cast<float>(bits::cast<_Float16>(value.bits)); }
template <>
KGEN_DEVICE f16 from_float<f16>(float value) {
  return {bits::cast<uint16_t>(static_cast<_Float16>(value))};
}
template <>
KGEN_DEVICE bf16 from_float<bf16>(float value) {
  return {bits::bf16_of(value)};
}
KGEN_DEVICE float exp2(float x) { return __builtin_amdgcn_exp2f(x); }
KGEN_DEVICE float log2(float x) { return __builtin_amdgcn_logf(x); }
KGEN_DEVICE float max(float a, float b) { return __builtin_fmaxf(a, b); }
KGEN_DEVICE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// ---- where a thread stands

KGEN_DEVICE int thread_id() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
KGEN_DEVICE int lane_id() { return thread_id() % kWave; }
KGEN_DEVICE int wave_id() { return __builtin_amdgcn_readfirstlane(thread_id() / kWave); }
KGEN_DEVICE int block_x() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
KGEN_DEVICE int block_y() { return static_cast<int>(__builtin_amdgcn_workgroup_id_y()); }
KGEN_DEVICE int block_z() { return static_cast<int>(__builtin_amdgcn_workgroup_id_z()); }

// ---- the block and the wave

KGEN_DEVICE void block_sync(Where = here()) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

KGEN_DEVICE void wave_sync(Where = here()) {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}

// Compilers move loads behind what there is to compute, where that takes fewer registers.
KGEN_DEVICE void keep_order() {
#if __has_builtin(__builtin_amdgcn_sched_barrier)
  __builtin_amdgcn_sched_barrier(0);
#endif
}

KGEN_DEVICE void keep_order(int& value) { asm volatile("" : "+v"(value)); }
template <typename T, int N>
KGEN_DEVICE void keep_order(Vec<T, N>& value) {
  auto words = bits::cast<typename bits::Word<sizeof(T) * N>::type>(value);
  asm volatile("" : "+v"(words));
  value = bits::cast<Vec<T, N>>(words);
}

KGEN_DEVICE void device_release(Where = here()) { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
KGEN_DEVICE void device_acquire(Where = here()) { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }

KGEN_DEVICE float shuffle(float x, int lane, Where = here()) {
  return bits::cast<float>(__builtin_amdgcn_ds_bpermute(lane << 2, bits::cast<int>(x)));
}

KGEN_DEVICE int shuffle(int x, int lane, Where = here()) {
  return __builtin_amdgcn_ds_bpermute(lane << 2, x);
}

// Exchange with lane ^ Mask: a data-parallel move inside rows of 16 where the pattern exists, a swizzle
// without address register inside 32 lanes, a permute beyond.
template <int Mask>
KGEN_DEVICE float shuffle_xor(float x, Where where = here()) {
  const int word = bits::cast<int>(x);
  if constexpr (Mask == 1) {
    return bits::cast<float>(__builtin_amdgcn_mov_dpp(word, 0xb1, 0xf, 0xf, true));  // quad_perm 1 0 3 2
  } else if constexpr (Mask == 2) {
    return bits::cast<float>(__builtin_amdgcn_mov_dpp(word, 0x4e, 0xf, 0xf, true));  // quad_perm 2 3 0 1
  } else if constexpr (Mask == 8) {
    return bits::cast<float>(__builtin_amdgcn_mov_dpp(word, 0x128, 0xf, 0xf, true));  // row_ror 8
  } else if constexpr (Mask < 32) {
    return bits::cast<float>(__builtin_amdgcn_ds_swizzle(word, Mask << 10 | 0x1f));
  } else {
    return shuffle(x, lane_id() ^ Mask, where);
  }
}

template <int Mask, int N>
KGEN_DEVICE Vec<float, N> shuffle_xor(const Vec<float, N>& x, Where where = here()) {
  Vec<float, N> other;
  KGEN_UNROLL
  for (int i = 0; i < N; ++i) other[i] = shuffle_xor<Mask>(x[i], where);
  return other;
}

KGEN_DEVICE uint64_t ballot(bool predicate, Where = here()) { return __builtin_amdgcn_ballot_w64(predicate); }
KGEN_DEVICE int bits_set(uint64_t bits) { return __builtin_popcountll(bits); }
KGEN_DEVICE int uniform(int x, Where = here()) { return __builtin_amdgcn_readfirstlane(x); }

// ---- memory

template <typename T>
class Window;

// Memory of the call: `elements` values of T from `address` on.
template <typename T>
class Global {
 public:
  KGEN_DEVICE Global(int64_t address, int64_t /*elements*/) : base_((KGEN_GLOBAL_MEMORY char*)address) {}

  KGEN_DEVICE bool present() const { return base_ != nullptr; }
  KGEN_DEVICE int64_t address(int64_t at) const {
    return (int64_t)base_ + at * static_cast<int64_t>(sizeof(T));
  }
  KGEN_DEVICE Window<T> window(int64_t at, int64_t span) const {
    return {(int64_t)base_ + at * static_cast<int64_t>(sizeof(T)), span};
  }

  template <int N>
  KGEN_DEVICE Vec<T, N> load(int64_t at, Where = here()) const {
    return bits::cast<Vec<T, N>>(*word<N>(at));
  }
  KGEN_DEVICE T load(int64_t at, Where where = here()) const { return load<1>(at, where)[0]; }
  KGEN_DEVICE T load_uniform(int64_t at, Where = here()) const {
    return ((KGEN_CONSTANT_MEMORY const T*)base_)[at];
  }

  template <int N>
  KGEN_DEVICE void store(int64_t at, const Vec<T, N>& value, Where = here()) const {
    *word<N>(at) = bits::cast<typename bits::Word<sizeof(T) * N>::type>(value);
  }
  KGEN_DEVICE void store(int64_t at, T value, Where where = here()) const {
    store<1>(at, Vec<T, 1>{{value}}, where);
  }

  KGEN_DEVICE T compare_and_swap(int64_t at, T expected, T value, Where = here()) const {
    __hip_atomic_compare_exchange_strong((KGEN_GLOBAL_MEMORY T*)base_ + at, &expected, value,
                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return expected;
  }
  KGEN_DEVICE void prefetch(int64_t, Where = here()) const {}  // no instruction for it
  KGEN_DEVICE T fetch_add(int64_t at, T value, Where = here()) const {
    static_assert(sizeof(T) == sizeof(int), "fetch_add works on int");
    return __hip_atomic_fetch_add((KGEN_GLOBAL_MEMORY T*)base_ + at, value, __ATOMIC_RELAXED,
                                  __HIP_MEMORY_SCOPE_AGENT);
  }

 private:
  template <int N>
  KGEN_DEVICE KGEN_GLOBAL_MEMORY typename bits::Word<sizeof(T) * N>::type* word(int64_t at) const {
    return (KGEN_GLOBAL_MEMORY typename bits::Word<sizeof(T) * N>::type*)(base_ + at * sizeof(T));
  }

  KGEN_GLOBAL_MEMORY char* base_;
};

// A window of `span` elements on memory of the call, behind a 128-bit buffer descriptor. It stands at one
// place for the whole wave and moves by steps; loads count from there, and from `span` on bring zeros.
template <typename T>
class Window {
 public:
  KGEN_DEVICE Window(int64_t address, int64_t span)
      : base_(address), bytes_(static_cast<int>(span * static_cast<int64_t>(sizeof(T)))) {}

  // Moves by `delta` elements, to element `at` of the memory: the simulator looks whether it is.
  KGEN_DEVICE void step(int64_t delta, int64_t /*at*/, Where = here()) {
    base_ += delta * static_cast<int64_t>(sizeof(T));
  }

  // Moves by `pages` times `apart` elements and `more`. One is less than 2^30 from the next: a page takes two
  // multiplications of 32 bits and an addition of 64.
  KGEN_DEVICE void step(int pages, int64_t apart, int more, int64_t /*at*/, Where = here()) {
    const int bytes = static_cast<int>(apart) * static_cast<int>(sizeof(T));
    base_ += static_cast<int64_t>(pages) * bytes + more * static_cast<int>(sizeof(T));
  }

  // From here on `span` elements count.
  KGEN_DEVICE void limit(int span, Where = here()) { bytes_ = span * static_cast<int>(sizeof(T)); }

  template <int N>
  KGEN_DEVICE Vec<T, N> load(int at, Where = here()) const {
    return load<N>(place(at), 0);
  }

  // `more` elements behind a place of a lane: where that is a constant, the instruction adds it.
  KGEN_DEVICE static int place(int at) { return at * static_cast<int>(sizeof(T)); }
  template <int N>
  KGEN_DEVICE Vec<T, N> load(int place, int more, Where = here()) const {
    const int from = place + more * static_cast<int>(sizeof(T));
    return bits::cast<Vec<T, N>>(bits::load_words<sizeof(T) * N>(base_, bytes_, from));
  }

 private:
  int64_t base_;
  int bytes_;
};

// A part of the shared array.
template <typename T>
class LdsArray {
 public:
  KGEN_DEVICE explicit LdsArray(lds_byte* base) : base_(base) {}

  template <int N>
  KGEN_DEVICE Vec<T, N> load(int at, Where = here()) const {
    return bits::cast<Vec<T, N>>(*word<N>(at));
  }
  KGEN_DEVICE T load(int at, Where where = here()) const { return load<1>(at, where)[0]; }

  template <int N>
  KGEN_DEVICE void store(int at, const Vec<T, N>& value, Where = here()) const {
    *word<N>(at) = bits::cast<typename bits::Word<sizeof(T) * N>::type>(value);
  }
  KGEN_DEVICE void store(int at, T value, Where where = here()) const {
    store<1>(at, Vec<T, 1>{{value}}, where);
  }

 private:
  template <int N>
  KGEN_DEVICE KGEN_LOCAL_MEMORY typename bits::Word<sizeof(T) * N>::type* word(int at) const {
    return (KGEN_LOCAL_MEMORY
            typename bits::Word<sizeof(T) * N>::type*)(base_ + at * static_cast<int>(sizeof(T)));
  }

  lds_byte* base_;
};

struct Lds {
  lds_byte* base;

  // `count` values of T from byte `offset` of the shared array on.
  template <typename T>
  KGEN_DEVICE LdsArray<T> array(int offset, int /*count*/, Where = here()) const {
    return LdsArray<T>(base + offset);
  }
};

}  // namespace kgen
