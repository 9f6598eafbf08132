// A plan as the launcher has it: figures, and the rules by which a call changes them.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "device.hpp"
#include "key.hpp"

namespace kgen {

namespace py = pybind11;

using Kernel = int (*)(const int64_t*);
using Words = std::vector<int64_t>;

inline Words numbers(py::handle sequence) {
  Words found;
  for (py::handle item : sequence) found.push_back(item.cast<int64_t>());
  return found;
}

inline int64_t number(py::handle sequence, int i) { return sequence[py::int_(i)].cast<int64_t>(); }

// The values of one int scalar or extent for which a plan is right, both ends among them.
struct Range {
  int64_t value;
  int64_t low;
  int64_t high;
};

// How a figure follows from a scalar or an extent: by straight pieces and bends (paths.py). In a plan's
// ranges each result fits 64 bits; what is between may wrap.
class Move {
 public:
  explicit Move(py::handle from)
      : place_(number(from, 0)),
        scalar_(number(from, 1)),
        factor_(number(from, 2)),
        offset_(number(from, 3)) {
    for (py::handle bend : from[py::int_(4)]) {
      const auto kind = bend[py::int_(2)].cast<std::string>();
      bends_.push_back({number(bend, 0), number(bend, 1),
                        kind[0] == '/'  ? kOver
                        : kind == "min" ? kMin
                                        : kMax,
                        number(bend, 3)});
    }
  }

  void make(const int64_t* values, int64_t* figures) const {
    int64_t x = values[scalar_];
    for (const Bend& bend : bends_) {
      x = straight(bend.factor, x, bend.offset);
      x = bend.kind == kOver  ? floored(x, bend.by)
          : bend.kind == kMin ? std::min(x, bend.by)
                              : std::max(x, bend.by);
    }
    figures[place_] = straight(factor_, x, offset_);
  }

 private:
  enum Kind { kOver, kMin, kMax };
  struct Bend {
    int64_t factor;
    int64_t offset;
    Kind kind;
    int64_t by;
  };

  static int64_t straight(int64_t factor, int64_t x, int64_t offset) {
    return static_cast<int64_t>(static_cast<uint64_t>(factor) * static_cast<uint64_t>(x) +
                                static_cast<uint64_t>(offset));
  }
  static int64_t floored(int64_t x, int64_t by) { return x / by - (x % by < 0 ? 1 : 0); }

  int64_t place_;
  int64_t scalar_;
  int64_t factor_;
  int64_t offset_;
  std::vector<Bend> bends_;
};

// Two tensors, one of which is written: places among the arguments.
struct Pair {
  int64_t written;
  int64_t other;
};

constexpr const char* kPlanName = "kgen.Plan";

struct Plan {
  Kernel kernel;  // null, and no launcher: there is nothing to do
  std::optional<Launcher> launcher;
  Words figures;           // the argument block, bytes of workspace, offsets in it, spans of pairs, grids
  int64_t workspace_size;  // its place
  Words tensor_places;     // per tensor argument; -1 where the block has no word for it
  Words scalar_places;
  Words workspace_places;
  int64_t threads;  // 0: ask torch
  int64_t* calls;   // raised by one at each launch
  std::vector<Range> ranges;
  std::vector<Move> moves;
  std::vector<Pair> pairs;
  py::object record;

  explicit Plan(const py::dict& from)
      : kernel(reinterpret_cast<Kernel>(from["address"].cast<int64_t>())),
        figures(numbers(from["figures"])),
        workspace_size(from["block_words"].cast<int64_t>()),
        tensor_places(numbers(from["tensor_places"])),
        scalar_places(numbers(from["scalar_places"])),
        workspace_places(numbers(from["workspace_places"])),
        threads(from["threads"].cast<int64_t>()),
        calls(reinterpret_cast<int64_t*>(from["calls"].cast<int64_t>())),
        record(from["record"]) {
    if (figures.size() > kMaxWords) throw py::value_error("the argument block is too large");
    for (py::handle range : from["ranges"]) {
      ranges.push_back({number(range, 0), number(range, 1), number(range, 2)});
    }
    for (py::handle move : from["moves"]) moves.emplace_back(move);
    for (py::handle pair : from["pairs"]) {
      pairs.push_back({number(pair, 0), number(pair, 1)});
    }
    const py::object gpu = from["gpu"];
    if (!gpu.is_none()) launcher.emplace(gpu.cast<py::dict>());
  }

  bool covers(const int64_t* values) const {
    for (const Range& range : ranges) {
      if (values[range.value] < range.low || values[range.value] > range.high) return false;
    }
    return true;
  }

  // The places of the offset of the i-th workspace pointer, of the bytes from the first to the last of both
  // tensors of the i-th pair, and of the first grid behind them.
  int64_t offset_place(size_t i) const { return workspace_size + 1 + static_cast<int64_t>(i); }
  int64_t span_place(size_t i) const {
    return offset_place(workspace_places.size()) + 2 * static_cast<int64_t>(i);
  }
  int64_t grids() const { return span_place(pairs.size()); }
};

}  // namespace kgen
