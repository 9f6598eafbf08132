// What a call is, as far as its plan depends on it: a key of integers read from Python arguments.
//
// Tensors are read through torch's DLPack exchange table where torch has one, else through their
// Python attributes; nothing of torch is linked.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "dlpack.hpp"
#include "key.hpp"

namespace kgen {

namespace py = pybind11;

constexpr int kMaxAxes = 8;  // of a tensor; what has more goes the slow way

inline py::object steal(PyObject* object) { return py::reinterpret_steal<py::object>(object); }

struct Scalar {
  bool is_float;
  bool in_key;  // plans for two values of it differ, and have no ranges for it
};

// Reads the arguments of one operator, (*tensors, *scalars, *keywords).
class Reader {
 public:
  explicit Reader(const py::dict& from)
      : tensors_(from["tensors"].cast<int>()),
        keywords_(from["keywords"].cast<int>()),
        environment_(names(from["environment"])) {
    for (py::handle kind : from["scalars"]) {
      scalars_.push_back({kind[py::int_(0)].cast<bool>(), kind[py::int_(1)].cast<bool>()});
    }
    for (py::handle place : from["extents"]) {
      extents_.push_back(place.cast<int>());
      values_ = std::max(values_, extents_.back() + 1);
    }
    for (py::handle type : from["tensor_types"]) {
      tensor_types_.push_back(py::reinterpret_borrow<py::object>(type));
    }
    values_ = std::max(values_, scalars());
    if (arguments() > kMaxWords) throw py::value_error("too many arguments");
    const py::object exchange = from["exchange"];
    if (!exchange.is_none()) {
      auto* table = static_cast<DlExchange*>(PyCapsule_GetPointer(exchange.ptr(), "dlpack_exchange_api"));
      if (table == nullptr) throw py::error_already_set();
      if (table->major == kDlMajor) read_ = table->tensor_from_object;
    }
  }

  int tensors() const { return tensors_; }
  int scalars() const { return static_cast<int>(scalars_.size()); }
  int keywords() const { return keywords_; }
  int values() const { return values_; }  // scalars, and what plans have ranges for beside them
  int arguments() const { return tensors() + scalars() + keywords(); }

  // False where the arguments are not plain ones and torch's dispatcher must see the call.
  bool read(PyObject* const* args, Key& key, void** pointers, int64_t* values) {
    key.put(environment_.fingerprint());
    std::fill(values + scalars(), values + values_, kUnknown);
    const bool plain = read_tensors(args, key, pointers, values) &&
                       read_scalars(args + tensors_, key, values) &&
                       read_keywords(args + tensors_ + scalars(), key) && key.fits;
    if (!plain) PyErr_Clear();
    return plain;
  }

 private:
  static std::vector<std::string> names(py::handle from) {
    std::vector<std::string> found;
    for (py::handle name : from) found.push_back(name.cast<std::string>() + "=");
    return found;
  }

  bool is_tensor(PyObject* object) const {
    for (const auto& type : tensor_types_) {
      if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == type.ptr()) return true;
    }
    return false;
  }

  bool read_tensors(PyObject* const* args, Key& key, void** pointers, int64_t* values) const {
    for (int i = 0; i < tensors_; ++i) {
      pointers[i] = nullptr;
      if (args[i] == Py_None) {
        key.put(kAbsent);
      } else if (!is_tensor(args[i]) || !read_tensor(args[i], extents_[i], key, pointers[i], values)) {
        return false;
      }
    }
    return true;
  }

  bool read_tensor(PyObject* tensor, int extent, Key& key, void*& pointer, int64_t* values) const {
    return read_ != nullptr ? read_exchanged(tensor, extent, key, pointer, values)
                            : read_attributes(tensor, extent, key, pointer, values);
  }

  // An extent that plans have ranges for, which is not part of their key; one that differs from that of a
  // tensor before it is, for binding to refuse.
  static constexpr int64_t kUnknown = -1;
  static void put_extent(int64_t size, int extent, Key& key, int64_t* values) {
    if (extent < 0) {
      key.put(size);
    } else if (values[extent] == kUnknown) {
      values[extent] = size;
    } else if (values[extent] != size) {
      key.put(kAbsent);
      key.put(size);
    }
  }

  bool read_exchanged(PyObject* tensor, int extent, Key& key, void*& pointer, int64_t* values) const {
    DlTensor t;
    if (read_(tensor, &t) != 0 || t.ndim > kMaxAxes) return false;
    key.put(static_cast<int64_t>(t.ndim) | static_cast<int64_t>(t.dtype.code) << 8 |
            static_cast<int64_t>(t.dtype.bits) << 16 | static_cast<int64_t>(t.device_type) << 24 |
            static_cast<int64_t>(t.device_id) << 40);
    if (t.ndim > 0) put_extent(t.shape[0], extent, key, values);
    for (int a = 1; a < t.ndim; ++a) key.put(t.shape[a]);
    for (int a = 0; a < t.ndim; ++a) key.put(t.strides[a]);
    pointer = static_cast<char*>(t.data) + t.byte_offset;
    return true;
  }

  static bool read_attributes(PyObject* tensor, int extent, Key& key, void*& pointer, int64_t* values) {
    static PyObject* const names[] = {intern("device"), intern("dtype"),    intern("shape"),
                                      intern("stride"), intern("data_ptr"), intern("is_cpu"),
                                      intern("is_cuda")};
    const py::object cpu = steal(PyObject_GetAttr(tensor, names[5]));
    const py::object cuda = steal(PyObject_GetAttr(tensor, names[6]));
    if (cpu.ptr() != Py_True && cuda.ptr() != Py_True) return false;
    const py::object device = steal(PyObject_GetAttr(tensor, names[0]));
    const py::object dtype = steal(PyObject_GetAttr(tensor, names[1]));
    const py::object shape = steal(PyObject_GetAttr(tensor, names[2]));
    if (!device || !dtype || !shape || !PyTuple_Check(shape.ptr())) return false;
    const py::object strides = steal(PyObject_CallMethodNoArgs(tensor, names[3]));
    const py::object address = steal(PyObject_CallMethodNoArgs(tensor, names[4]));
    if (!strides || !address || PyTuple_GET_SIZE(shape.ptr()) > kMaxAxes) return false;
    key.put(static_cast<int64_t>(PyTuple_GET_SIZE(shape.ptr())));
    key.put(PyObject_Hash(device.ptr()));  // type and number
    key.put(reinterpret_cast<int64_t>(dtype.ptr()));
    const bool has_axes = PyTuple_GET_SIZE(shape.ptr()) > 0;
    if (has_axes) put_extent(PyLong_AsLongLong(PyTuple_GET_ITEM(shape.ptr(), 0)), extent, key, values);
    put_tuple(shape.ptr(), has_axes, key);
    put_tuple(strides.ptr(), 0, key);
    pointer = reinterpret_cast<void*>(PyLong_AsUnsignedLongLong(address.ptr()));
    return PyErr_Occurred() == nullptr;
  }

  static PyObject* intern(const char* name) { return PyUnicode_InternFromString(name); }
  static void put_tuple(PyObject* tuple, Py_ssize_t first, Key& key) {
    for (Py_ssize_t i = first; i < PyTuple_GET_SIZE(tuple); ++i) {
      key.put(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
    }
  }

  bool read_scalars(PyObject* const* args, Key& key, int64_t* values) const {
    for (size_t i = 0; i < scalars_.size(); ++i) {
      if (args[i] == Py_None) {
        key.put(kAbsent);
        values[i] = 0;
        continue;
      }
      if (!read_scalar(args[i], scalars_[i].is_float, values[i])) return false;
      key.put(scalars_[i].in_key ? values[i] : 0);
    }
    return true;
  }

  static bool read_scalar(PyObject* object, bool is_float, int64_t& value) {
    if (is_float) {
      const double number = PyFloat_Check(object) ? PyFloat_AS_DOUBLE(object) : PyFloat_AsDouble(object);
      std::memcpy(&value, &number, sizeof(value));
    } else {
      if (!PyLong_CheckExact(object)) return false;
      value = PyLong_AsLongLong(object);
    }
    return PyErr_Occurred() == nullptr;
  }

  bool read_keywords(PyObject* const* args, Key& key) const {
    for (int i = 0; i < keywords_; ++i) {
      const Py_hash_t hash = args[i] == Py_None ? 0 : PyObject_Hash(args[i]);
      if (hash == -1) return false;
      key.put(hash);
    }
    return true;
  }

  int tensors_;
  std::vector<Scalar> scalars_;
  int keywords_;
  int values_ = 0;
  std::vector<int>
      extents_;  // of each tensor, the place of its first extent among the values; -1: in the key
  Environment environment_;
  std::vector<py::object> tensor_types_;
  int (*read_)(void*, DlTensor*) = nullptr;
};

}  // namespace kgen
