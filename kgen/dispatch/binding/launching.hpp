// A call whose plan is known: the argument block is filled in, and its kernels run or are started.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <cstring>

#include "plan.hpp"
#include "signature.hpp"

namespace kgen {

// What Python is asked for.
struct Services {
  py::object fail;         // (record, values, status, code, row, index, value), raises
  py::object overlap;      // (record, values, place of the pair, distance), raises where memory is shared
  py::object workspace;    // (bytes), on a GPU (bytes, device, stream) -> address
  py::object stream;       // (device) -> the handle of torch's current stream
  py::object refuse;       // (record, status of the driver), raises
  py::object wait;         // (record): raises what the kernels just launched report
  py::object num_threads;  // () -> int
};

// While it lives, other threads of Python run.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { PyEval_RestoreThread(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

class Launching {
 public:
  Launching(const py::dict& from, int tensors, int scalars, int values)
      : services_{from["fail"],   from["overlap"], from["workspace"],  from["stream"],
                  from["refuse"], from["wait"],    from["num_threads"]},
        tensors_(tensors),
        scalars_(scalars),
        values_(values) {}

  // False: raised.
  bool launch(const Plan& plan, void* const* pointers, const int64_t* values,
              PyObject* const* scalars) const {
    if (plan.kernel == nullptr && !plan.launcher) return true;
    int64_t figures[kMaxWords];
    std::memcpy(figures, plan.figures.data(), plan.figures.size() * sizeof(int64_t));
    for (const Move& move : plan.moves) move.make(values, figures);
    if (!keep_apart(plan, pointers, values, figures)) return false;
    for (int i = 0; i < tensors_; ++i) {
      if (plan.tensor_places[i] >= 0) figures[plan.tensor_places[i]] = reinterpret_cast<int64_t>(pointers[i]);
    }
    for (int i = 0; i < scalars_; ++i) {
      if (plan.scalar_places[i] >= 0 && scalars[i] != Py_None) figures[plan.scalar_places[i]] = values[i];
    }
    return plan.launcher ? start(plan, *plan.launcher, values, figures) : run(plan, values, figures);
  }

 private:
  // Ranges of bytes that meet are looked at by their strides, in Python.
  bool keep_apart(const Plan& plan, void* const* pointers, const int64_t* values,
                  const int64_t* figures) const {
    for (size_t i = 0; i < plan.pairs.size(); ++i) {
      const Pair& pair = plan.pairs[i];
      const int64_t apart =
          reinterpret_cast<int64_t>(pointers[pair.other]) - reinterpret_cast<int64_t>(pointers[pair.written]);
      const int64_t* spans = figures + plan.span_place(i);
      if (apart >= spans[0] || -apart >= spans[1]) continue;
      if (!steal(PyObject_CallFunction(services_.overlap.ptr(), "OOnL", plan.record.ptr(), told(values).ptr(),
                                       static_cast<Py_ssize_t>(i), static_cast<long long>(apart)))) {
        return false;
      }
    }
    return true;
  }

  bool run(const Plan& plan, const int64_t* values, int64_t* figures) const {
    if (figures[plan.workspace_size] > 0) {
      const py::int_ size(figures[plan.workspace_size]);
      PyObject* const args[] = {size.ptr()};
      if (!place_workspace(plan, figures, args, 1)) return false;
    }
    if (!place_threads(plan, figures)) return false;
    int64_t error[4] = {0, 0, 0, 0};
    figures[kError] = reinterpret_cast<int64_t>(error);
    int status;
    {
      const Unlocked unlocked;
      status = plan.kernel(figures);
    }
    if (status != 0) return raise(plan, values, status, error);
    ++*plan.calls;
    return true;
  }

  bool start(const Plan& plan, const Launcher& launcher, const int64_t* values, int64_t* figures) const {
    int64_t error[4];
    if (launcher.misplaced(figures, error)) return raise(plan, values, static_cast<int>(error[0]), error);
    const py::object stream = steal(PyObject_CallOneArg(services_.stream.ptr(), launcher.device()));
    if (!stream) return false;
    void* handle = reinterpret_cast<void*>(PyLong_AsUnsignedLongLong(stream.ptr()));
    if (PyErr_Occurred() != nullptr) return false;
    if (figures[plan.workspace_size] > 0) {
      const py::int_ size(figures[plan.workspace_size]);
      PyObject* const args[] = {size.ptr(), launcher.memory(), stream.ptr()};
      if (!place_workspace(plan, figures, args, 3)) return false;
    }
    figures[kError] = launcher.error();
    int status;
    {
      const Unlocked unlocked;
      status = launcher.start(figures, figures + plan.grids(), values, handle);
    }
    if (status != 0) {
      return raised(steal(PyObject_CallFunction(services_.refuse.ptr(), "Oi", plan.record.ptr(), status)));
    }
    ++*plan.calls;
    if (!launcher.checked()) return true;
    return static_cast<bool>(steal(PyObject_CallOneArg(services_.wait.ptr(), plan.record.ptr())));
  }

  bool place_workspace(const Plan& plan, int64_t* figures, PyObject* const* args, size_t count) const {
    const py::object address = steal(PyObject_Vectorcall(services_.workspace.ptr(), args, count, nullptr));
    if (!address) return false;
    const int64_t base = PyLong_AsLongLong(address.ptr());
    for (size_t i = 0; i < plan.workspace_places.size(); ++i) {
      figures[plan.workspace_places[i]] = base + figures[plan.offset_place(i)];
    }
    return PyErr_Occurred() == nullptr;
  }

  bool place_threads(const Plan& plan, int64_t* figures) const {
    int64_t threads = plan.threads;
    if (threads == 0) {
      const py::object answer = steal(PyObject_CallNoArgs(services_.num_threads.ptr()));
      if (!answer) return false;
      threads = PyLong_AsLongLong(answer.ptr());
    }
    if (threads <= 1) figures[kParallel] = figures[kThreadNum] = 0;
    figures[kThreads] = threads < 1 ? 1 : threads;
    return true;
  }

  py::tuple told(const int64_t* values) const {
    py::tuple found(values_);
    for (int i = 0; i < values_; ++i) found[i] = py::int_(values[i]);
    return found;
  }

  bool raise(const Plan& plan, const int64_t* values, int status, const int64_t* error) const {
    return raised(steal(
        PyObject_CallFunction(services_.fail.ptr(), "OOiLLLL", plan.record.ptr(), told(values).ptr(), status,
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

  Services services_;
  int tensors_;
  int scalars_;
  int values_;  // scalars and extents
};

}  // namespace kgen
