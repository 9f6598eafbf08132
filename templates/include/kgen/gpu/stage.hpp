// Memory on its way into the shared array, and arrays of a call that are read like arrays.
//
//   Rows<T>(words, cache, fresh)                   where rows begin, in two memories; kept in LDS, so that
//                                                  one thread finds a row for all
//   rows.in_cache(i, at), in_fresh(i, at), none(i) row i begins at element `at` of a memory, or is zeros
//   Stage<T, Count> stage                          Count 16-byte vectors of each thread under way at once
//   rows.word(i)                                   what a thread needs of row i to ask for it
//   stage.fetch(i, to, at, rows, word, dim)        ask for vector i: of a row, from element `dim` on
//   stage.skip(i)                                  vector i is none
//   stage.land(to)                                 all of them are in the shared array, for other threads too
//                                                  once the block has met
//   copy_row(to, at, rows, word, dim)              16 bytes of a row into the array, under way until this
//                                                  lane has waited for all that it asked for so
//   copy_part(to, at, memory, from)                the same of 16 bytes of a memory, from an element on
//   copies_wait()                                  waits for them
//   Array<T>{memory, first}                        array[i] is element first + i of the memory
#pragma once

namespace kgen {

template <typename T>
struct Array {
  Global<T> memory;
  int64_t first;

  KGEN_DEVICE T operator[](int64_t i) const { return memory.load(first + i); }
};

#if defined(KGEN_SIM)
// A word is twice the element, plus 1 in the second memory; -1 for zeros.
template <typename T>
class Rows {
 public:
  Rows(const LdsArray<int64_t>& words, const Global<T>& cache, const Global<T>& fresh)
      : words_(words), cache_(cache), fresh_(fresh) {}

  void in_cache(int i, int64_t at, Where where = here()) const { words_.store(i, 2 * at, where); }
  void in_fresh(int i, int64_t at, Where where = here()) const { words_.store(i, 2 * at + 1, where); }
  void none(int i, Where where = here()) const { words_.store(i, -1, where); }

  int64_t word(int i, Where where = here()) const { return words_.load(i, where); }

  template <int N>
  Vec<T, N> load(int64_t word, int dim, Where where) const {
    if (word < 0) return splat<T, N>(T{});
    return (word % 2 != 0 ? fresh_ : cache_).template load<N>(word / 2 + dim, where);
  }

 private:
  LdsArray<int64_t> words_;
  Global<T> cache_, fresh_;
};
#else
// What a row of nothing is read from.
struct alignas(16) ZeroRow {
  unsigned char bytes[512];
};
__attribute__((device)) const ZeroRow kZeroRow = {};

// A word is the address of the row.
template <typename T>
class Rows {
 public:
  KGEN_DEVICE Rows(const LdsArray<int64_t>& words, const Global<T>& cache, const Global<T>& fresh)
      : words_(words), cache_(cache), fresh_(fresh) {}

  KGEN_DEVICE void in_cache(int i, int64_t at) const { words_.store(i, cache_.address(at)); }
  KGEN_DEVICE void in_fresh(int i, int64_t at) const { words_.store(i, fresh_.address(at)); }
  KGEN_DEVICE void none(int i) const { words_.store(i, reinterpret_cast<int64_t>(&kZeroRow)); }

  KGEN_DEVICE int64_t word(int i) const { return words_.load(i); }

  template <int N>
  KGEN_DEVICE Vec<T, N> load(int64_t word, int dim, Where) const {
    return Global<T>(word, 0).template load<N>(dim);
  }

 private:
  LdsArray<int64_t> words_;
  Global<T> cache_, fresh_;
};
#endif

#if defined(__CUDACC__)
// cp.async moves past the registers.
template <typename T>
KGEN_DEVICE void copy_row(const LdsArray<T>& to, int at, const Rows<T>&, int64_t word, int dim) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to.address(at)),
               "l"(word + dim * static_cast<int>(sizeof(T)))
               : "memory");
}
template <typename T>
KGEN_DEVICE void copy_part(const LdsArray<T>& to, int at, const Global<T>& memory, int64_t from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to.address(at)), "l"(memory.address(from))
               : "memory");
}
KGEN_DEVICE void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

template <typename T, int Count>
class Stage {
 public:
  KGEN_DEVICE void fetch(int, const LdsArray<T>& to, int at, const Rows<T>& rows, int64_t word, int dim) {
    copy_row(to, at, rows, word, dim);
  }

  KGEN_DEVICE void skip(int) {}

  KGEN_DEVICE void land(const LdsArray<T>&) { copies_wait(); }
};
#else
template <typename T>
KGEN_DEVICE void copy_row(const LdsArray<T>& to, int at, const Rows<T>& rows, int64_t word, int dim,
                          Where where = here()) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  to.template store<kVector>(at, rows.template load<kVector>(word, dim, where), where);
}
template <typename T>
KGEN_DEVICE void copy_part(const LdsArray<T>& to, int at, const Global<T>& memory, int64_t from,
                           Where where = here()) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  to.template store<kVector>(at, memory.template load<kVector>(from, where), where);
}
KGEN_DEVICE void copies_wait() {}

// Loads that wait in registers until there is room.
template <typename T, int Count>
class Stage {
 public:
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));

  KGEN_DEVICE void fetch(int i, const LdsArray<T>&, int at, const Rows<T>& rows, int64_t word, int dim,
                         Where where = here()) {
    places_[i] = at;
    vectors_[i] = rows.template load<kVector>(word, dim, where);
  }

  KGEN_DEVICE void skip(int i) { places_[i] = -1; }

  KGEN_DEVICE void land(const LdsArray<T>& to, Where where = here()) {
    KGEN_UNROLL
    for (int i = 0; i < Count; ++i) {
      if (places_[i] >= 0) to.template store<kVector>(places_[i], vectors_[i], where);
    }
  }

 private:
  int places_[Count];
  Vec<T, kVector> vectors_[Count];
};
#endif

}  // namespace kgen
