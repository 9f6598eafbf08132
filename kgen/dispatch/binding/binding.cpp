// The generic launcher: from Python arguments to an argument block and the call of a kernel.
//
// A `Caller` belongs to one operator. It reads what a plan depends on (extents, strides, dtypes,
// devices, keywords, the environment), looks up the plan whose ranges hold the scalars, fills in pointers
// and calls the kernel, or starts those of a GPU, without the GIL. What it does not know it asks of Python,
// once per signature.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device.hpp"
#include "signature.hpp"

namespace {

using namespace kgen;

using Kernel = int (*)(const int64_t*);
using Words = std::vector<int64_t>;

constexpr size_t kMaxPlans = 1024;

// ---- Reading what Python hands over ---------------------------------------------------------------

std::vector<int64_t> numbers(py::handle sequence) {
  std::vector<int64_t> found;
  for (py::handle item : sequence) found.push_back(item.cast<int64_t>());
  return found;
}

// ---- Plans --------------------------------------------------------------------------------------

constexpr const char* kPlanName = "kgen.Plan";

// The values of one int scalar for which a plan is right, both ends among them.
struct Range {
  int64_t scalar;
  int64_t low;
  int64_t high;
};

// Two tensors, one of which is written: places among the arguments, and bytes from the first to the last.
struct Pair {
  int64_t written;
  int64_t other;
  int64_t written_span;
  int64_t other_span;
};

struct Plan {
  Kernel kernel;  // null, and no launcher: there is nothing to do
  std::optional<Launcher> launcher;
  Words words;
  Words tensor_places;  // per tensor argument; -1 where the block has no word for it
  Words scalar_places;
  Words workspace_places;
  Words workspace_offsets;
  int64_t workspace_size;
  int64_t threads;  // 0: ask torch
  int64_t* calls;   // raised by one at each launch
  std::vector<Range> ranges;
  std::vector<Pair> pairs;
  py::object record;

  explicit Plan(const py::dict& from)
      : kernel(reinterpret_cast<Kernel>(from["address"].cast<int64_t>())),
        words(numbers(from["words"])),
        tensor_places(numbers(from["tensor_places"])),
        scalar_places(numbers(from["scalar_places"])),
        workspace_places(numbers(from["workspace_places"])),
        workspace_offsets(numbers(from["workspace_offsets"])),
        workspace_size(from["workspace_size"].cast<int64_t>()),
        threads(from["threads"].cast<int64_t>()),
        calls(reinterpret_cast<int64_t*>(from["calls"].cast<int64_t>())),
        record(from["record"]) {
    for (py::handle range : from["ranges"]) {
      const auto number = [&](int i) { return range[py::int_(i)].cast<int64_t>(); };
      ranges.push_back({number(0), number(1), number(2)});
    }
    for (py::handle pair : from["pairs"]) {
      const auto number = [&](int i) { return pair[py::int_(i)].cast<int64_t>(); };
      pairs.push_back({number(0), number(1), number(2), number(3)});
    }
    const py::object gpu = from["gpu"];
    if (!gpu.is_none()) launcher.emplace(gpu.cast<py::dict>());
  }

  bool covers(const int64_t* values) const {
    for (const Range& range : ranges) {
      if (values[range.scalar] < range.low || values[range.scalar] > range.high) return false;
    }
    return true;
  }
};

struct Kept {
  Words key;
  py::tuple keywords;
  py::object owner;
  const Plan* plan;
};

// ---- The caller ---------------------------------------------------------------------------------

struct Services {
  py::object make_plan;       // (*arguments) -> what `plan` made
  py::object fail;            // (record, status, code, row, index, value), raises
  py::object overlap;         // (record, place of the pair, distance), raises where memory is shared
  py::object workspace;       // (bytes), on a GPU (bytes, device, stream) -> address
  py::object stream;          // (device) -> the handle of torch's current stream
  py::object refuse;          // (record, status of the driver), raises
  py::object wait;            // (record): raises what the kernels just launched report
  py::object num_threads;     // () -> int
  py::object dispatch_depth;  // () -> int: active dispatch modes
};

class Caller {
 public:
  explicit Caller(const py::dict& from)
      : reader_(from),
        services_{from["make_plan"], from["fail"], from["overlap"],     from["workspace"],     from["stream"],
                  from["refuse"],    from["wait"], from["num_threads"], from["dispatch_depth"]} {}

  // Py_True: done. Py_False: these arguments must go through torch's dispatcher. Null: raised.
  PyObject* call(PyObject* const* args, Py_ssize_t count) {
    if (count != reader_.arguments()) {
      PyErr_Format(PyExc_TypeError, "expected %d arguments, got %zd", reader_.arguments(), count);
      return nullptr;
    }
    Key key;
    void* pointers[kMaxWords];
    int64_t values[kMaxWords];
    if (in_dispatch_mode() || !reader_.read(args, key, pointers, values)) return done(false);
    PyObject* const* scalars = args + reader_.tensors();
    PyObject* const* keywords = scalars + reader_.scalars();
    const uint64_t hash = key.hash();
    const Kept* kept = find(hash, key, values, keywords);
    if (kept == nullptr) {
      kept = make(hash, key, args, count);
      if (kept == nullptr) return nullptr;
    }
    // The plan must outlive a change of the table by another thread while the GIL is released.
    py::object owner = kept->owner;
    return launch(*kept->plan, pointers, values, scalars) ? done(true) : nullptr;
  }

 private:
  static PyObject* done(bool value) { return PyBool_FromLong(value); }

  bool in_dispatch_mode() {
    PyObject* depth = PyObject_CallNoArgs(services_.dispatch_depth.ptr());
    if (depth == nullptr) {
      PyErr_Clear();
      return true;
    }
    const bool active = PyLong_AsLong(depth) != 0;
    Py_DECREF(depth);
    return active;
  }

  // Plans of one key differ in their ranges; the one found last is looked at first.
  const Kept* find(uint64_t hash, const Key& key, const int64_t* values, PyObject* const* keywords) {
    const auto found = table_.find(hash);
    if (found == table_.end()) return nullptr;
    auto& bucket = found->second;
    for (size_t i = bucket.size(); i-- > 0;) {
      const Kept& kept = bucket[i];
      if (kept.plan->covers(values) && kept.key.size() == static_cast<size_t>(key.size) &&
          std::memcmp(kept.key.data(), key.word, key.size * sizeof(int64_t)) == 0 &&
          same_keywords(kept.keywords, keywords)) {
        if (i + 1 < bucket.size()) std::swap(bucket[i], bucket.back());
        return &bucket.back();
      }
    }
    return nullptr;
  }

  bool same_keywords(const py::tuple& kept, PyObject* const* keywords) const {
    for (int i = 0; i < reader_.keywords(); ++i) {
      PyObject* mine = PyTuple_GET_ITEM(kept.ptr(), i);
      if (mine == keywords[i]) continue;
      const int equal = PyObject_RichCompareBool(mine, keywords[i], Py_EQ);
      if (equal != 1) {
        PyErr_Clear();
        return false;
      }
    }
    return true;
  }

  const Kept* make(uint64_t hash, const Key& key, PyObject* const* args, Py_ssize_t count) {
    py::object made = steal(PyObject_Vectorcall(services_.make_plan.ptr(), args, count, nullptr));
    if (!made) return nullptr;
    py::tuple keywords(reader_.keywords());
    for (int i = 0; i < reader_.keywords(); ++i) {
      keywords[i] = py::reinterpret_borrow<py::object>(args[count - reader_.keywords() + i]);
    }
    const auto* plan = static_cast<const Plan*>(PyCapsule_GetPointer(made.ptr(), kPlanName));
    if (plan == nullptr) return nullptr;
    if (plans_ >= kMaxPlans) {
      table_.clear();
      plans_ = 0;
    }
    auto& bucket = table_[hash];
    bucket.push_back(Kept{Words(key.word, key.word + key.size), keywords, made, plan});
    ++plans_;
    return &bucket.back();
  }

  bool launch(const Plan& plan, void* const* pointers, const int64_t* values, PyObject* const* scalars) {
    if (plan.kernel == nullptr && !plan.launcher) return true;
    if (!keep_apart(plan, pointers)) return false;
    int64_t block[kMaxWords];
    std::memcpy(block, plan.words.data(), plan.words.size() * sizeof(int64_t));
    for (int i = 0; i < reader_.tensors(); ++i) {
      if (plan.tensor_places[i] >= 0) block[plan.tensor_places[i]] = reinterpret_cast<int64_t>(pointers[i]);
    }
    for (int i = 0; i < reader_.scalars(); ++i) {
      if (plan.scalar_places[i] >= 0 && scalars[i] != Py_None) block[plan.scalar_places[i]] = values[i];
    }
    return plan.launcher ? start(plan, *plan.launcher, block) : run(plan, block);
  }

  // Ranges of bytes that meet are looked at by their strides, in Python.
  bool keep_apart(const Plan& plan, void* const* pointers) {
    for (size_t i = 0; i < plan.pairs.size(); ++i) {
      const Pair& pair = plan.pairs[i];
      const int64_t apart =
          reinterpret_cast<int64_t>(pointers[pair.other]) - reinterpret_cast<int64_t>(pointers[pair.written]);
      if (apart >= pair.written_span || -apart >= pair.other_span) continue;
      if (!steal(PyObject_CallFunction(services_.overlap.ptr(), "OnL", plan.record.ptr(),
                                       static_cast<Py_ssize_t>(i), static_cast<long long>(apart)))) {
        return false;
      }
    }
    return true;
  }

  bool run(const Plan& plan, int64_t* block) {
    if (plan.workspace_size > 0) {
      const py::int_ size(plan.workspace_size);
      PyObject* const args[] = {size.ptr()};
      if (!place_workspace(plan, block, args, 1)) return false;
    }
    if (!place_threads(plan, block)) return false;
    int64_t error[4] = {0, 0, 0, 0};
    block[kError] = reinterpret_cast<int64_t>(error);
    int status;
    {
      py::gil_scoped_release unlocked;
      status = plan.kernel(block);
    }
    if (status != 0) return raise(plan, status, error);
    ++*plan.calls;
    return true;
  }

  bool start(const Plan& plan, const Launcher& launcher, int64_t* block) {
    int64_t told[4];
    if (launcher.misplaced(block, told)) return raise(plan, static_cast<int>(told[0]), told);
    const py::object stream = steal(PyObject_CallOneArg(services_.stream.ptr(), launcher.device()));
    if (!stream) return false;
    void* handle = reinterpret_cast<void*>(PyLong_AsUnsignedLongLong(stream.ptr()));
    if (PyErr_Occurred() != nullptr) return false;
    if (plan.workspace_size > 0) {
      const py::int_ size(plan.workspace_size);
      PyObject* const args[] = {size.ptr(), launcher.memory(), stream.ptr()};
      if (!place_workspace(plan, block, args, 3)) return false;
    }
    block[kError] = launcher.error();
    int status;
    {
      py::gil_scoped_release unlocked;
      status = launcher.start(block, handle);
    }
    if (status != 0) {
      return raised(steal(PyObject_CallFunction(services_.refuse.ptr(), "Oi", plan.record.ptr(), status)));
    }
    ++*plan.calls;
    if (!launcher.checked()) return true;
    return static_cast<bool>(steal(PyObject_CallOneArg(services_.wait.ptr(), plan.record.ptr())));
  }

  bool place_workspace(const Plan& plan, int64_t* block, PyObject* const* args, size_t count) {
    const py::object address = steal(PyObject_Vectorcall(services_.workspace.ptr(), args, count, nullptr));
    if (!address) return false;
    const int64_t base = PyLong_AsLongLong(address.ptr());
    for (size_t i = 0; i < plan.workspace_places.size(); ++i) {
      block[plan.workspace_places[i]] = base + plan.workspace_offsets[i];
    }
    return PyErr_Occurred() == nullptr;
  }

  bool place_threads(const Plan& plan, int64_t* block) {
    int64_t threads = plan.threads;
    if (threads == 0) {
      const py::object answer = steal(PyObject_CallNoArgs(services_.num_threads.ptr()));
      if (!answer) return false;
      threads = PyLong_AsLongLong(answer.ptr());
    }
    if (threads <= 1) block[kParallel] = block[kThreadNum] = 0;
    block[kThreads] = threads < 1 ? 1 : threads;
    return true;
  }

  bool raise(const Plan& plan, int status, const int64_t* error) {
    return raised(
        steal(PyObject_CallFunction(services_.fail.ptr(), "OiLLLL", plan.record.ptr(), status,
                                    static_cast<long long>(error[0]), static_cast<long long>(error[1]),
                                    static_cast<long long>(error[2]), static_cast<long long>(error[3]))));
  }

  // False, with an exception set: what was asked to raise has done so.
  static bool raised(const py::object& answer) {
    if (answer) PyErr_SetString(PyExc_SystemError, "a kernel's error was not raised");
    return false;
  }

  // Places in the header (manifest.HEADER).
  enum { kError = 2, kParallel = 3, kThreadNum = 4, kThreads = 5 };

  Reader reader_;
  Services services_;
  std::unordered_map<uint64_t, std::vector<Kept>> table_;
  size_t plans_ = 0;
};

PyObject* call_caller(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  try {
    return static_cast<Caller*>(PyCapsule_GetPointer(self, nullptr))->call(args, count);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyMethodDef call_method = {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_caller)),
                           METH_FASTCALL, "(*tensors, *scalars, *keywords) -> bool"};

template <class T>
void release(PyObject* capsule) {
  delete static_cast<T*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
}

// A plan, as a capsule.
py::object make_plan(const py::dict& from) {
  auto plan = std::make_unique<Plan>(from);
  if (plan->words.size() > kMaxWords) throw py::value_error("the argument block is too large");
  PyObject* capsule = PyCapsule_New(plan.get(), kPlanName, release<Plan>);
  if (capsule == nullptr) throw py::error_already_set();
  plan.release();
  return py::reinterpret_steal<py::object>(capsule);
}

// A caller, as a plain built-in function that holds it: the cheapest thing Python can call.
py::object make_caller(const py::dict& from) {
  auto caller = std::make_unique<Caller>(from);
  PyObject* capsule = PyCapsule_New(caller.get(), nullptr, release<Caller>);
  if (capsule == nullptr) throw py::error_already_set();
  caller.release();
  PyObject* function = PyCFunction_NewEx(&call_method, capsule, nullptr);
  Py_DECREF(capsule);
  if (function == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(function);
}

}  // namespace

PYBIND11_MODULE(kgen_binding, module) {
  module.doc() = "The generic launcher of kgen's kernels.";
  module.def("plan", &make_plan);
  module.def("caller", &make_caller);
}
