// Memory on its way into the shared array, and arrays of a call that are read like arrays.
//
//   Stage<T, Count> stage                          Count 16-byte vectors of each thread under way at once
//   stage.fetch(i, to, at, from, index, used)      ask for vector i; zeros where it is not used
//   stage.skip(i)                                  vector i is none
//   stage.land(to)                                 all of them are in the shared array, for other threads too
//                                                  once the block has met
//   Array<T>{memory, first}                        array[i] is element first + i of the memory
#pragma once

namespace kgen {

template <typename T>
struct Array {
  Global<T> memory;
  int64_t first;

  KGEN_DEVICE T operator[](int64_t i) const { return memory.load(first + i); }
};

#if defined(__CUDACC__)
// cp.async moves past the registers.
template <typename T, int Count>
class Stage {
 public:
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));

  KGEN_DEVICE void fetch(int, const LdsArray<T>& to, int at, const Global<T>& from, int64_t index, bool used,
                         Where = here()) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to.address(at)),
                 "l"(from.address(used ? index : 0)), "r"(used ? 16 : 0)
                 : "memory");
  }

  KGEN_DEVICE void skip(int) {}

  KGEN_DEVICE void land(const LdsArray<T>&, Where = here()) {
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
};
#else
// Loads that wait in registers until there is room.
template <typename T, int Count>
class Stage {
 public:
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));

  KGEN_DEVICE void fetch(int i, const LdsArray<T>&, int at, const Global<T>& from, int64_t index, bool used,
                         Where where = here()) {
    places_[i] = at;
    Words words = {0, 0, 0, 0};
    if (used) words = bits::cast<Words>(from.template load<kVector>(index, where));
    vectors_[i] = words;
  }

  KGEN_DEVICE void skip(int i) { places_[i] = -1; }

  KGEN_DEVICE void land(const LdsArray<T>& to, Where where = here()) {
    KGEN_UNROLL
    for (int i = 0; i < Count; ++i) {
      if (places_[i] >= 0)
        to.template store<kVector>(places_[i], bits::cast<Vec<T, kVector> >(vectors_[i]), where);
    }
  }

 private:
  // Whole words: a choice element by element would send them through memory.
  struct alignas(16) Words {
    uint32_t at[4];
  };

  int places_[Count];
  Words vectors_[Count];
};
#endif

}  // namespace kgen
