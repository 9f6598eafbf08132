// A plan's kernels on a GPU: started through the driver's entry points, whose addresses Python found.
//
// NVIDIA and AMD differ in where a thread works: CUDA has contexts, HIP numbers its devices. All else
// is one.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kgen {

namespace py = pybind11;

// Reads and sets where the calling thread works. Answers are the driver's statuses, 0 for success.
class Place {
 public:
  explicit Place(const py::dict& from)
      : get_(reinterpret_cast<void*>(from["get"].cast<int64_t>())),
        set_(reinterpret_cast<void*>(from["set"].cast<int64_t>())),
        by_number_(from["by_number"].cast<bool>()) {}

  int get(int64_t& place) const {
    if (by_number_) {
      int number = 0;
      const int status = reinterpret_cast<int (*)(int*)>(get_)(&number);
      place = number;
      return status;
    }
    void* context = nullptr;
    const int status = reinterpret_cast<int (*)(void**)>(get_)(&context);
    place = reinterpret_cast<int64_t>(context);
    return status;
  }

  int set(int64_t place) const {
    if (by_number_) return reinterpret_cast<int (*)(int)>(set_)(static_cast<int>(place));
    return reinterpret_cast<int (*)(void*)>(set_)(reinterpret_cast<void*>(place));
  }

 private:
  void* get_;
  void* set_;
  bool by_number_;
};

// A tensor as a copy engine wants it described: encoded at each call, since its address changes, and its rows
// may.
class TensorMap {
 public:
  struct alignas(64) Encoded {
    uint64_t words[16];
  };

  explicit TensorMap(py::handle from) : place_(number(from, 0)), element_(static_cast<int>(number(from, 1))) {
    fill(from, 2, sizes_);
    fill(from, 3, strides_);
    fill(from, 4, box_);
    fill(from, 5, how_);
    rows_ = number(from, 6);
  }

  // Answers the driver's status. A tensor that is left out, or has no elements, is never asked for.
  int encode(void* entry, const int64_t* block, const int64_t* values, Encoded& into) const {
    if (place_ < 0 || block[place_] == 0) {
      into = Encoded{};
      return 0;
    }
    uint64_t sizes[kAxes];
    std::copy(sizes_, sizes_ + kAxes, sizes);
    if (rows_ >= 0) sizes[1] = static_cast<uint64_t>(values[rows_]);
    const uint32_t steps[kAxes] = {1, 1, 1, 1, 1};
    return reinterpret_cast<Encode>(entry)(&into, element_, kAxes, reinterpret_cast<void*>(block[place_]),
                                           sizes, strides_, box_, steps, how_[0], how_[1], how_[2], how_[3]);
  }

 private:
  static constexpr int kAxes = 5;
  using Encode = int (*)(void* map, int element, uint32_t rank, void* address, const uint64_t* sizes,
                         const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                         int swizzle, int promotion, int fill);

  static int64_t number(py::handle from, int i) { return from[py::int_(i)].cast<int64_t>(); }

  template <typename T, size_t N>
  static void fill(py::handle from, int i, T (&into)[N]) {
    size_t at = 0;
    for (py::handle item : from[py::int_(i)]) {
      if (at < N) into[at++] = item.cast<T>();
    }
  }

  int64_t place_;
  int element_;
  uint64_t sizes_[kAxes] = {};
  uint64_t strides_[kAxes - 1] = {};
  uint32_t box_[kAxes] = {};
  int how_[4] = {};
  int64_t rows_ = -1;  // the place among the values of its rows, where a call may have more or fewer
};

struct Step {
  void* function;
  unsigned block;
  unsigned dynamic_lds;
  std::vector<TensorMap> maps;
};

class Launcher {
 public:
  explicit Launcher(const py::dict& from)
      : start_(reinterpret_cast<Start>(from["start"].cast<int64_t>())),
        place_(from),
        here_(from["place"].cast<int64_t>()),
        device_(from["device"]),
        memory_(from["memory"]),
        error_(from["error"].cast<int64_t>()),
        alignment_(from["alignment"].cast<int64_t>()),
        misaligned_(from["misaligned"].cast<int64_t>()),
        checked_(from["checked"].cast<bool>()),
        encode_(reinterpret_cast<void*>(from["encode"].cast<int64_t>())) {
    for (py::handle word : from["aligned"]) aligned_.push_back(word.cast<int64_t>());
    for (py::handle step : from["steps"]) {
      steps_.push_back({reinterpret_cast<void*>(step[py::int_(0)].cast<int64_t>()),
                        step[py::int_(1)].cast<unsigned>(),
                        step[py::int_(2)].cast<unsigned>(),
                        {}});
      for (py::handle map : step[py::int_(3)]) steps_.back().maps.emplace_back(map);
      if (steps_.back().maps.size() > kMaxMaps) throw py::value_error("a kernel has too many tensor maps");
    }
  }

  PyObject* device() const { return device_.ptr(); }
  PyObject* memory() const { return memory_.ptr(); }  // the device as torch names it
  int64_t error() const { return error_; }            // the address of the device's error word
  bool checked() const { return checked_; }           // whether each call waits for its kernels

  // Whether a row of elements starts off its alignment; `told` is then code, row, index and value.
  bool misplaced(const int64_t* block, int64_t* told) const {
    for (const int64_t word : aligned_) {
      if (block[word] % alignment_ == 0) continue;
      told[0] = misaligned_, told[1] = word, told[2] = alignment_, told[3] = block[word];
      return true;
    }
    return false;
  }

  // Starts every kernel on a stream of the device, with so many blocks along x, y and z; waits for nothing.
  // `block` is copied before this returns. Answers the driver's status, below 0 where it is that of
  // describing a tensor.
  int start(int64_t* block, const int64_t* grids, const int64_t* values, void* stream) const {
    int64_t before = 0;
    int status = place_.get(before);
    if (status != 0) return status;
    const bool elsewhere = before != here_;
    if (elsewhere && (status = place_.set(here_)) != 0) return status;
    status = start_steps(block, grids, values, stream);
    const int back = elsewhere ? place_.set(before) : 0;
    return status != 0 ? status : back;
  }

 private:
  static constexpr size_t kMaxMaps = 8;
  using Start = int (*)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned dynamic_lds, void* stream,
                        void** parameters, void** extra);

  int start_steps(int64_t* block, const int64_t* grids, const int64_t* values, void* stream) const {
    TensorMap::Encoded maps[kMaxMaps];
    void* parameters[1 + kMaxMaps] = {block};
    for (const Step& step : steps_) {
      const unsigned grid[3] = {static_cast<unsigned>(grids[0]), static_cast<unsigned>(grids[1]),
                                static_cast<unsigned>(grids[2])};
      grids += 3;
      if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) continue;  // no blocks: no launch
      int status = 0;
      for (size_t i = 0; i < step.maps.size() && status == 0; ++i) {
        status = step.maps[i].encode(encode_, block, values, maps[i]);
        parameters[1 + i] = &maps[i];
      }
      if (status != 0) return -status;
      status = start_(step.function, grid[0], grid[1], grid[2], step.block, 1, 1, step.dynamic_lds, stream,
                      parameters, nullptr);
      if (status != 0) return status;
    }
    return 0;
  }

  Start start_;
  Place place_;
  int64_t here_;
  py::object device_;
  py::object memory_;
  int64_t error_;
  int64_t alignment_;
  int64_t misaligned_;
  bool checked_;
  void* encode_;
  std::vector<int64_t> aligned_;
  std::vector<Step> steps_;
};

}  // namespace kgen
