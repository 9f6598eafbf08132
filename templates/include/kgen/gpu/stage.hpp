// Memory on its way into the shared array, and arrays of a call that are read like arrays.
//
//   Rows<T>(words, cache, fresh)                   where rows begin, in two memories; kept in LDS, so that one
//                                                  thread finds a row for all
//   rows.in_cache(i, at), in_fresh(i, at), none(i) row i begins at element `at` of a memory, or is zeros
//   Stage<T, Count> stage                          Count 16-byte vectors of each thread under way at once
//   rows.word(i)                                   what a thread needs of row i to ask for it
//   stage.fetch(i, to, at, rows, word, dim)        ask for vector i: of a row, from element `dim` on
//   stage.skip(i)                                  vector i is none
//   stage.land(to)                                 all of them are in the shared array, for other threads too
//                                                  once the block has met
//   RowStage<T, Dims> stage(gates)                 where threads can have whole rows copied: one each
//   stage.open(senders)                            before all else, and the block meets; `senders` threads take part
//   stage.copy(turn, to, at, from, index)          the thread's row, from element `index` of a memory
//   stage.zero(turn, to, at)                       or zeros
//   stage.land(turn, phase)                        the senders' rows of this turn (0 or 1) are there; phase: of its
//                                                  uses, counted from 0, the last bit
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
// A word is the address of the row; addresses are even, so that its last bit can say: zeros.
template <typename T>
class Rows {
 public:
  KGEN_DEVICE Rows(const LdsArray<int64_t>& words, const Global<T>& cache, const Global<T>& fresh)
      : words_(words), cache_(cache), fresh_(fresh) {}

  KGEN_DEVICE void in_cache(int i, int64_t at) const { words_.store(i, cache_.address(at)); }
  KGEN_DEVICE void in_fresh(int i, int64_t at) const { words_.store(i, fresh_.address(at)); }
  KGEN_DEVICE void none(int i) const { words_.store(i, cache_.address(0) | 1); }

  KGEN_DEVICE int64_t word(int i) const { return words_.load(i); }

  template <int N>
  KGEN_DEVICE Vec<T, N> load(int64_t word, int dim, Where) const {
    Vec<uint32_t, static_cast<int>(sizeof(T)) * N / 4> words = {};
    if ((word & 1) == 0) {
      words = bits::cast<decltype(words)>(Global<T>(word, 0).template load<N>(dim));
    }
    return bits::cast<Vec<T, N>>(words);
  }

 private:
  LdsArray<int64_t> words_;
  Global<T> cache_, fresh_;
};
#endif

#if defined(KGEN_SIM)
// The row waits with its thread, and is stored as it lands.
template <typename T, int Dims>
class RowStage {
 public:
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));

  explicit RowStage(const LdsArray<int64_t>&) {}
  void open(int) {}

  void copy(int, const LdsArray<T>& to, int at, const Global<T>& from, int64_t index, Where where = here()) {
    for (int i = 0; i < Dims / kVector; ++i) row_[i] = from.template load<kVector>(index + i * kVector, where);
    to_ = to;
    at_ = at;
  }
  void zero(int, const LdsArray<T>& to, int at, Where = here()) {
    for (int i = 0; i < Dims / kVector; ++i) row_[i] = splat<T, kVector>(T{});
    to_ = to;
    at_ = at;
  }

  void land(int, int, Where where = here()) {
    if (at_ < 0) return;
    for (int i = 0; i < Dims / kVector; ++i) to_.template store<kVector>(at_ + i * kVector, row_[i], where);
    at_ = -1;
  }

 private:
  Vec<T, kVector> row_[Dims / kVector];
  LdsArray<T> to_{0, 0};
  int at_ = -1;
};
#elif defined(__CUDACC__)
// cp.async.bulk moves rows past the threads; an mbarrier a turn counts their bytes.
template <typename T, int Dims>
class RowStage {
 public:
  static constexpr int kBytes = Dims * static_cast<int>(sizeof(T));

  KGEN_DEVICE explicit RowStage(const LdsArray<int64_t>& gates) : gates_(gates) {}

  KGEN_DEVICE void open(int senders) {
    if (thread_id() != 0) return;
    KGEN_UNROLL
    for (int turn = 0; turn < 2; ++turn) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(gates_.address(turn)), "r"(senders)
                   : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
  }

  KGEN_DEVICE void copy(int turn, const LdsArray<T>& to, int at, const Global<T>& from, int64_t index) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%2], %3;\n\t"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %3, [%2];" ::"r"(
            to.address(at)),
        "l"(from.address(index)), "r"(gates_.address(turn)), "n"(kBytes)
        : "memory");
  }

  KGEN_DEVICE void zero(int turn, const LdsArray<T>& to, int at) {
    constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    KGEN_UNROLL
    for (int i = 0; i < Dims; i += kVector) to.store(at + i, splat<T, kVector>(T{}));
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(gates_.address(turn)) : "memory");
  }

  KGEN_DEVICE void land(int turn, int phase) {
    asm volatile(
        "{\n\t.reg .pred there;\n\t"
        "again: mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n\t"
        "@!there bra again;\n\t}" ::"r"(gates_.address(turn)),
        "r"(phase)
        : "memory");
  }

 private:
  LdsArray<int64_t> gates_;
};
#endif

#if defined(__CUDACC__)
// cp.async moves past the registers.
template <typename T, int Count>
class Stage {
 public:
  KGEN_DEVICE void fetch(int, const LdsArray<T>& to, int at, const Rows<T>&, int64_t word, int dim) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to.address(at)),
                 "l"((word & ~int64_t{1}) + dim * static_cast<int>(sizeof(T))), "r"((word & 1) != 0 ? 0 : 16)
                 : "memory");
  }

  KGEN_DEVICE void skip(int) {}

  KGEN_DEVICE void land(const LdsArray<T>&) { asm volatile("cp.async.wait_all;" ::: "memory"); }
};
#else
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
