// The dialect on NVIDIA, for nvcc.
#pragma once

#define KGEN_DEVICE __device__ __forceinline__
#define KGEN_UNROLL _Pragma("unroll")
#define KGEN_NO_UNROLL _Pragma("unroll 1")
#define KGEN_KERNEL(threads, blocks) extern "C" __global__ __launch_bounds__(threads, blocks)
#if !defined(KGEN_LDS_ALIGNMENT)
#define KGEN_LDS_ALIGNMENT 16
#endif
#if defined(KGEN_DYNAMIC_LDS)
#define KGEN_LDS(name, size)                      \
  extern __shared__ __align__(KGEN_LDS_ALIGNMENT) \
  unsigned char kgen_lds_storage[];               \
  const kgen::Lds name { kgen_lds_storage }
#else
#define KGEN_LDS(name, size)                                                 \
  __shared__ alignas(KGEN_LDS_ALIGNMENT) unsigned char name##_storage[size]; \
  const kgen::Lds name { name##_storage }
#endif

#include "kgen/gpu/types.hpp"

namespace kgen {

constexpr int kWave = KGEN_WAVE;
static_assert(kWave == 32, "an NVIDIA warp is 32 lanes");
constexpr unsigned kAllLanes = 0xffffffffu;

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
  typedef uint2 type;
};
template <>
struct Word<16> {
  typedef uint4 type;
};

}  // namespace bits

// ---- numbers

KGEN_DEVICE float to_float(f16 value) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
}
template <>
KGEN_DEVICE f16 from_float<f16>(float value) {
  f16 narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  return narrow;
}
template <>
KGEN_DEVICE bf16 from_float<bf16>(float value) {
  bf16 narrow;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  return narrow;
}
template <>
KGEN_DEVICE Vec<f16, 2> from_floats<f16>(float a, float b) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(a), "f"(b));
  return bits::cast<Vec<f16, 2>>(pair);
}
template <>
KGEN_DEVICE Vec<bf16, 2> from_floats<bf16>(float a, float b) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(a), "f"(b));
  return bits::cast<Vec<bf16, 2>>(pair);
}
KGEN_DEVICE float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
KGEN_DEVICE float log2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
KGEN_DEVICE float max(float a, float b) { return fmaxf(a, b); }
KGEN_DEVICE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }

// ---- where a thread stands

KGEN_DEVICE int thread_id() { return static_cast<int>(threadIdx.x); }
KGEN_DEVICE int lane_id() { return thread_id() % kWave; }
KGEN_DEVICE int wave_id() { return __shfl_sync(kAllLanes, thread_id() / kWave, 0); }
KGEN_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
KGEN_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
KGEN_DEVICE int block_z() { return static_cast<int>(blockIdx.z); }

// ---- the block and the wave

KGEN_DEVICE void block_sync(Where = here()) { __syncthreads(); }
KGEN_DEVICE void wave_sync(Where = here()) { __syncwarp(); }

// The addition orders by itself, and for all threads that have met with the one that adds.
// nvcc has no word for it.
KGEN_DEVICE void keep_order() {}
KGEN_DEVICE void keep_order(int&) {}
template <typename T, int N>
KGEN_DEVICE void keep_order(Vec<T, N>&) {}

KGEN_DEVICE void device_release(Where = here()) {}
KGEN_DEVICE void device_acquire(Where = here()) {}

KGEN_DEVICE float shuffle(float x, int lane, Where = here()) { return __shfl_sync(kAllLanes, x, lane); }
KGEN_DEVICE int shuffle(int x, int lane, Where = here()) { return __shfl_sync(kAllLanes, x, lane); }

template <int Mask>
KGEN_DEVICE float shuffle_xor(float x, Where = here()) {
  return __shfl_xor_sync(kAllLanes, x, Mask);
}

template <int Mask, int N>
KGEN_DEVICE Vec<float, N> shuffle_xor(const Vec<float, N>& x, Where where = here()) {
  Vec<float, N> other;
  KGEN_UNROLL
  for (int i = 0; i < N; ++i) other[i] = shuffle_xor<Mask>(x[i], where);
  return other;
}

KGEN_DEVICE uint64_t ballot(bool predicate, Where = here()) { return __ballot_sync(kAllLanes, predicate); }
KGEN_DEVICE int bits_set(uint64_t bits) { return __popcll(bits); }
// From here on the compiler too knows that lanes have the same. All of them must come here.
KGEN_DEVICE int uniform(int x, Where = here()) { return __shfl_sync(kAllLanes, x, 0); }

// ---- memory

template <typename T>
class Window;

// Memory of the call: `elements` values of T from `address` on.
template <typename T>
class Global {
 public:
  KGEN_DEVICE Global(int64_t address, int64_t /*elements*/) : base_(reinterpret_cast<T*>(address)) {}

  KGEN_DEVICE bool present() const { return base_ != nullptr; }
  KGEN_DEVICE int64_t address(int64_t at) const { return reinterpret_cast<int64_t>(base_ + at); }
  KGEN_DEVICE Window<T> window(int64_t at, int64_t span) const { return {base_ + at, span}; }

  template <int N>
  KGEN_DEVICE Vec<T, N> load(int64_t at, Where = here()) const {
    // A local of the word's type first: without it nvcc reads memory byte by byte.
    const typename bits::Word<sizeof(T) * N>::type moved = *word<N>(at);
    return bits::cast<Vec<T, N>>(moved);
  }
  KGEN_DEVICE T load(int64_t at, Where = here()) const { return base_[at]; }
  KGEN_DEVICE T load_uniform(int64_t at, Where = here()) const { return base_[at]; }
  KGEN_DEVICE void prefetch(int64_t at, Where = here()) const {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(base_ + at));
  }

  template <int N>
  KGEN_DEVICE void store(int64_t at, const Vec<T, N>& value, Where = here()) const {
    *word<N>(at) = bits::cast<typename bits::Word<sizeof(T) * N>::type>(value);
  }
  KGEN_DEVICE void store(int64_t at, T value, Where = here()) const { base_[at] = value; }

  KGEN_DEVICE T compare_and_swap(int64_t at, T expected, T value, Where = here()) const {
    typedef unsigned long long word64;
    static_assert(sizeof(T) == sizeof(word64), "compare_and_swap works on int64");
    return static_cast<T>(atomicCAS(reinterpret_cast<word64*>(base_ + at), static_cast<word64>(expected),
                                    static_cast<word64>(value)));
  }
  KGEN_DEVICE T fetch_add(int64_t at, T value, Where = here()) const {
    static_assert(sizeof(T) == sizeof(int), "fetch_add works on int");
    T old;
    asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(base_ + at), "r"(value)
                 : "memory");
    return old;
  }

 private:
  template <int N>
  KGEN_DEVICE typename bits::Word<sizeof(T) * N>::type* word(int64_t at) const {
    return reinterpret_cast<typename bits::Word<sizeof(T) * N>::type*>(base_ + at);
  }

  T* base_;
};

// A window of `span` elements on memory of the call. It stands at one place for the whole wave and moves by
// steps; loads count from there, and from `span` on bring zeros.
template <typename T>
class Window {
 public:
  KGEN_DEVICE Window(const T* base, int64_t span) : base_(base), span_(static_cast<int>(span)) {}

  // Moves by `delta` elements, to element `at` of the memory: the simulator looks whether it is.
  KGEN_DEVICE void step(int64_t delta, int64_t /*at*/, Where = here()) { base_ += delta; }
  KGEN_DEVICE void step(int pages, int64_t apart, int more, int64_t /*at*/, Where = here()) {
    base_ += pages * apart + more;
  }

  // From here on `span` elements count.
  KGEN_DEVICE void limit(int span, Where = here()) { span_ = span; }

  template <int N>
  KGEN_DEVICE Vec<T, N> load(int at, Where = here()) const {
    typedef typename bits::Word<sizeof(T) * N>::type word;
    word words = {};
    if (at < span_) words = *reinterpret_cast<const word*>(base_ + at);
    return bits::cast<Vec<T, N>>(words);
  }

  KGEN_DEVICE static int place(int at) { return at; }
  template <int N>
  KGEN_DEVICE Vec<T, N> load(int place, int more, Where = here()) const {
    return load<N>(place + more);
  }

 private:
  const T* base_;
  int span_;
};

// A part of the shared array.
template <typename T>
class LdsArray {
 public:
  KGEN_DEVICE explicit LdsArray(unsigned char* base) : base_(reinterpret_cast<T*>(base)) {}

  KGEN_DEVICE unsigned address(int at) const {
    return static_cast<unsigned>(__cvta_generic_to_shared(base_ + at));
  }

  template <int N>
  KGEN_DEVICE Vec<T, N> load(int at, Where = here()) const {
    // A local of the word's type first: without it nvcc reads memory byte by byte.
    const typename bits::Word<sizeof(T) * N>::type moved = *word<N>(at);
    return bits::cast<Vec<T, N>>(moved);
  }
  KGEN_DEVICE T load(int at, Where = here()) const { return base_[at]; }

  template <int N>
  KGEN_DEVICE void store(int at, const Vec<T, N>& value, Where = here()) const {
    *word<N>(at) = bits::cast<typename bits::Word<sizeof(T) * N>::type>(value);
  }
  KGEN_DEVICE void store(int at, T value, Where = here()) const { base_[at] = value; }

 private:
  template <int N>
  KGEN_DEVICE typename bits::Word<sizeof(T) * N>::type* word(int at) const {
    return reinterpret_cast<typename bits::Word<sizeof(T) * N>::type*>(base_ + at);
  }

  T* base_;
};

// Four 8 x 8 tiles of 16-bit elements. Lane l says where row l % 8 of tile l / 8 begins, and receives of each
// tile columns 2 (l % 4) and 2 (l % 4) + 1 of row l / 4; transposed, those rows of that column.
#define KGEN_READ_TILES(name, how)                                                         \
  template <typename T>                                                                    \
  KGEN_DEVICE Vec<T, 8> name(const LdsArray<T>& from, int at, Where = here()) {            \
    uint4 words;                                                                           \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)              \
                 : "r"(from.address(at)));                                                 \
    return bits::cast<Vec<T, 8>>(words);                                                   \
  }
KGEN_READ_TILES(read_tiles, "")
KGEN_READ_TILES(read_tiles_transposed, ".trans")

template <typename T>
KGEN_DEVICE Vec<T, 2> turn(const Vec<T, 2>& pair, Where = here()) {
  uint32_t word = bits::cast<uint32_t>(pair);
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(word));
  return bits::cast<Vec<T, 2>>(word);
}

struct Lds {
  unsigned char* base;

  // `count` values of T from byte `offset` of the shared array on.
  template <typename T>
  KGEN_DEVICE LdsArray<T> array(int offset, int /*count*/, Where = here()) const {
    return LdsArray<T>(base + offset);
  }
};

}  // namespace kgen
