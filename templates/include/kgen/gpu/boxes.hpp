// Boxes of a tensor that a copy engine brings into shared memory by itself, and how a block learns that they
// came.
//
//   KGEN_BOXES(map)                    a parameter of a kernel: how a tensor lies (BoxMap)
//   Boxes<T, Rows, Dims> boxes(map, once)
//                                      a box is Rows tokens of one head: all dims of them, or one panel. Of
//                                      what is read `once` caches keep nothing that they need room for
//   boxes.bring(to, at, landings, turn, row, head, block, panel)
//                                      one box, from element `at` of a shared array on, a multiple of 1024
//                                      bytes. One lane asks for it. panel: its first
//   in_box<Rows>(row, start, step)     where 16-bit elements lie in a box, those from dim start + step to the
//   next
//                                      multiple of 8; start is below 16, step a multiple of 16
//   Landings landings(words)           what has come: a word of LDS for each turn
//   landings.make(turns, speakers)     by one thread, before the block meets
//   landings.expect(turn, bytes)       a speaker, for its wave: so many bytes are under way
//   landings.leave(turn)               the same of a wave that brings nothing: it has read or multiplied what
//   was
//                                      there, or stored its share by itself; all lanes
//   landings.wait(turn, round)         until every speaker has spoken, and what it expects is there, for the
//                                      round-th time since 0; -1 is over from the start.
//                                      Only of the round that is under way, or the one before it
//
// A box is made of panels of 64 elements, Rows rows of 128 bytes each. The 16-byte pieces of a row change
// places by the number of the row, so that lanes that read one column of eight rows find them on different
// banks. Boxes of one panel, one behind the other, are a panel of more rows.
#pragma once

namespace kgen {

template <int Rows>
KGEN_DEVICE constexpr int in_box(int row, int start, int step) {
  return step / 64 * (Rows * 64) + row * 64 + ((start ^ row % 8 * 8) ^ step % 64);
}

#if defined(KGEN_SIM)
#pragma GCC visibility push(hidden)

struct BoxMap {
  int64_t address, elements;
  int64_t stride_block, stride_head, stride_row;  // elements
  int64_t rows;                                   // of a block, or of all
};
#define KGEN_BOXES(map) const kgen::BoxMap& map

class Landings {
 public:
  explicit Landings(const LdsArray<int64_t>& words) : words_(words) {}

  void make(int turns, int speakers, Where where = here()) const {
    for (int turn = 0; turn < turns; ++turn) {
      words_.store(turn, 0, where);
      sim::machine().make_landing(words_.byte(turn), turn, speakers, where);
    }
  }
  void expect(int turn, int bytes, Where where = here()) const {
    words_.load(turn, where);
    sim::machine().speak(words_.byte(turn), bytes, where);
  }
  int byte(int turn) const { return words_.byte(turn); }
  void arrive(int turn, int bytes, Where where) const {
    sim::machine().land(words_.byte(turn), bytes, where);
  }
  void leave(int turn, Where where = here()) const {
    wave_sync(where);
    if (lane_id() == 0) expect(turn, 0, where);
  }
  void wait(int turn, int round, Where where = here()) const {
    words_.load(turn, where);
    sim::machine().await_landing(words_.byte(turn), round, where);
  }

 private:
  LdsArray<int64_t> words_;
};

template <typename T, int Rows, int Dims>
class Boxes {
 public:
  static constexpr int kBytes = Rows * Dims * static_cast<int>(sizeof(T));

  explicit Boxes(const BoxMap& map, bool /*once*/ = false) : map_(map), memory_(map.address, map.elements) {}

  void bring(const LdsArray<T>& to, int at, const Landings& landings, int turn, int row, int head, int block,
             int panel = 0, Where where = here()) const {
    if (row < 0 || row + Rows > map_.rows) {
      sim::machine().stop(where, "a box of rows %d to %d of %d", row, row + Rows - 1,
                          static_cast<int>(map_.rows));
    }
    if (to.byte(at) % 1024 != 0) sim::machine().stop(where, "a box at byte %d of LDS", to.byte(at));
    for (int r = 0; r < Rows; ++r) {
      const int64_t from =
          block * map_.stride_block + head * map_.stride_head + (row + r) * map_.stride_row + panel * 64;
      for (int dim = 0; dim < Dims; dim += 8) {
        to.template store_by_engine<8>(at + place(r, dim),
                                       memory_.template load_constant<8>(from + dim, "a box", where),
                                       landings.byte(turn), where);
      }
    }
    landings.arrive(turn, kBytes, where);
  }

 private:
  // Where the engine puts a piece: panel by panel, and in each bits 4 to 6 of a byte's place, which number
  // the pieces of a row, changed by bits 7 to 9, which number the row. Apart from in_box, which must agree.
  static int place(int row, int dim) {
    const int byte = dim / 64 * (Rows * 128) + row * 128 + dim % 64 * 2;
    return (byte ^ (byte >> 7 & 7) << 4) / 2;
  }

  const BoxMap& map_;
  Global<T> memory_;
};

#pragma GCC visibility pop
#elif defined(__CUDACC__)

// A tensor map, as the driver makes it.
struct alignas(64) BoxMap {
  uint64_t words[16];
};
#define KGEN_BOXES(map) const __grid_constant__ kgen::BoxMap map

// mbarriers.
class Landings {
 public:
  KGEN_DEVICE explicit Landings(const LdsArray<int64_t>& words) : words_(words) {}

  KGEN_DEVICE void make(int turns, int speakers) const {
    for (int turn = 0; turn < turns; ++turn) {
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(turn)), "r"(speakers) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  KGEN_DEVICE void expect(int turn, int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address(turn)), "r"(bytes)
                 : "memory");
  }
  KGEN_DEVICE void leave(int turn) const {
    wave_sync();
    if (lane_id() == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(address(turn)) : "memory");
  }
  KGEN_DEVICE void wait(int turn, int round) const {
    asm volatile(
        "{\n"
        ".reg .pred landed;\n"
        "WAIT_%=:\n"
        "mbarrier.try_wait.parity.shared.b64 landed, [%0], %1;\n"
        "@!landed bra WAIT_%=;\n"
        "}" ::"r"(address(turn)),
        "r"(round & 1)
        : "memory");
  }
  KGEN_DEVICE unsigned address(int turn) const { return words_.address(turn); }

 private:
  LdsArray<int64_t> words_;
};

// cp.async.bulk.tensor, of dim in a panel, row, panel, head and block.
template <typename T, int Rows, int Dims>
class Boxes {
 public:
  static constexpr int kBytes = Rows * Dims * static_cast<int>(sizeof(T));

  KGEN_DEVICE explicit Boxes(const BoxMap& map, bool once = false) : map_(map) {
    if (once) {
      asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy_));
    } else {
      asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy_));
    }
  }

  KGEN_DEVICE void bring(const LdsArray<T>& to, int at, const Landings& landings, int turn, int row, int head,
                         int block, int panel = 0) const {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(to.address(at)),
        "l"(&map_), "r"(0), "r"(row), "r"(panel), "r"(head), "r"(block), "r"(landings.address(turn)),
        "l"(policy_)
        : "memory");
  }

 private:
  const BoxMap& map_;
  uint64_t policy_;
};

#endif

}  // namespace kgen
