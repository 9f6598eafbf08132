// The generic launcher: from Python arguments to an argument block and the call of a kernel.
//
// A `Caller` belongs to one operator. It reads what a plan depends on (extents, strides, dtypes,
// devices, keywords, the environment), looks up the plan whose ranges hold the scalars, lets the figures that
// follow from them move, fills in pointers and calls the kernel, or starts those of a GPU, without the GIL.
// What it does not know it asks of Python, once per signature.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "launching.hpp"
#include "signature.hpp"
#include "table.hpp"

namespace {

using namespace kgen;

class Caller {
 public:
  explicit Caller(const py::dict& from)
      : reader_(from),
        launching_(from, reader_.tensors(), reader_.scalars(), reader_.values()),
        make_plan_(from["make_plan"]),
        dispatch_depth_(from["dispatch_depth"]) {}

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
    const Kept* kept = table_.find(key, values, keywords);
    if (kept == nullptr) {
      kept = make(key, args, count);
      if (kept == nullptr) return nullptr;
    }
    // The plan must outlive a change of the table by another thread while the GIL is released.
    py::object owner = kept->owner;
    return launching_.launch(*kept->plan, pointers, values, scalars) ? done(true) : nullptr;
  }

 private:
  static PyObject* done(bool value) { return PyBool_FromLong(value); }

  bool in_dispatch_mode() const {
    PyObject* depth = PyObject_CallNoArgs(dispatch_depth_.ptr());
    if (depth == nullptr) {
      PyErr_Clear();
      return true;
    }
    const bool active = PyLong_AsLong(depth) != 0;
    Py_DECREF(depth);
    return active;
  }

  const Kept* make(const Key& key, PyObject* const* args, Py_ssize_t count) {
    py::object made = steal(PyObject_Vectorcall(make_plan_.ptr(), args, count, nullptr));
    if (!made) return nullptr;
    py::tuple keywords(reader_.keywords());
    for (int i = 0; i < reader_.keywords(); ++i) {
      keywords[i] = py::reinterpret_borrow<py::object>(args[count - reader_.keywords() + i]);
    }
    const auto* plan = static_cast<const Plan*>(PyCapsule_GetPointer(made.ptr(), kPlanName));
    if (plan == nullptr) return nullptr;
    return table_.keep(key, std::move(keywords), std::move(made), plan);
  }

  Reader reader_;
  Launching launching_;
  py::object make_plan_;       // (*arguments) -> what `plan` made
  py::object dispatch_depth_;  // () -> int: active dispatch modes
  Table table_;
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
