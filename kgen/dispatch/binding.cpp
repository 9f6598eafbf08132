// The generic launcher: from Python arguments to an argument block and the call of a kernel.
//
// A `Caller` belongs to one operator. It reads what a plan depends on (extents, strides, dtypes,
// devices, steering scalars, keywords, the environment), looks the plan up, fills in pointers and
// calls the kernel without the GIL. What it does not know it asks of Python, once per signature.
// Tensors are read through torch's DLPack exchange table where torch has one, else through their
// Python attributes; nothing of torch is linked.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

extern char** environ;

namespace py = pybind11;

namespace {

using Kernel = int (*)(const int64_t*);
using Words = std::vector<int64_t>;

constexpr int kMaxWords = 256;  // of a key or a block; what is larger goes the slow way
constexpr int kMaxAxes = 8;
constexpr size_t kMaxPlans = 1024;
constexpr int64_t kAbsent = INT64_MIN;

// ---- DLPack's exchange table, as far as it is used here (dlpack.h of version 1) -----------------

struct DlDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DlTensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  DlDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct DlExchange {
  uint32_t major;
  uint32_t minor;
  void* previous;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* object, DlTensor* out);
  void* current_stream;
};

constexpr uint32_t kDlMajor = 1;

// ---- Keys ---------------------------------------------------------------------------------------

struct Key {
  int64_t word[kMaxWords];
  int size = 0;
  bool fits = true;

  void put(int64_t value) {
    if (size < kMaxWords) {
      word[size++] = value;
    } else {
      fits = false;
    }
  }
  uint64_t hash() const {
    uint64_t h = 1469598103934665603ull;
    for (int i = 0; i < size; ++i) {
      h = (h ^ static_cast<uint64_t>(word[i])) * 1099511628211ull;
      h ^= h >> 29;
    }
    return h;
  }
};

uint64_t hash_text(uint64_t h, const char* text) {
  for (; *text; ++text) h = (h ^ static_cast<unsigned char>(*text)) * 1099511628211ull;
  return h;
}

// ---- Reading what Python hands over ---------------------------------------------------------------

std::vector<int64_t> numbers(py::handle sequence) {
  std::vector<int64_t> found;
  for (py::handle item : sequence) found.push_back(item.cast<int64_t>());
  return found;
}

// ---- Plans --------------------------------------------------------------------------------------

constexpr const char* kPlanName = "kgen.Plan";

struct Plan {
  Kernel kernel;  // null: there is nothing to do
  Words words;
  Words tensor_places;  // per tensor argument; -1 where the block has no word for it
  Words scalar_places;
  Words workspace_places;
  Words workspace_offsets;
  int64_t workspace_size;
  int64_t threads;  // 0: ask torch
  int64_t* calls;   // raised by one at each launch
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
        record(from["record"]) {}
};

struct Kept {
  Words key;
  py::tuple keywords;
  py::object owner;
  const Plan* plan;
};

// ---- The caller ---------------------------------------------------------------------------------

struct Scalar {
  bool is_float;
  bool steers;
};

struct Services {
  py::object make_plan;       // (*arguments) -> what `plan` made
  py::object fail;            // (record, status, code, row, index, value), raises
  py::object workspace;       // (bytes) -> address
  py::object num_threads;     // () -> int
  py::object dispatch_depth;  // () -> int: active dispatch modes
};

class Caller {
 public:
  explicit Caller(const py::dict& from)
      : tensors_(from["tensors"].cast<int>()),
        keywords_(from["keywords"].cast<int>()),
        services_{from["make_plan"], from["fail"], from["workspace"], from["num_threads"],
                  from["dispatch_depth"]} {
    for (py::handle kind : from["scalars"]) {
      scalars_.push_back({kind[py::int_(0)].cast<bool>(), kind[py::int_(1)].cast<bool>()});
    }
    for (py::handle name : from["environment"]) environment_.push_back(name.cast<std::string>() + "=");
    for (py::handle type : from["tensor_types"]) {
      tensor_types_.push_back(py::reinterpret_borrow<py::object>(type));
    }
    if (arguments() > kMaxWords) throw py::value_error("too many arguments");
    const py::object exchange = from["exchange"];
    if (!exchange.is_none()) {
      auto* table = static_cast<DlExchange*>(PyCapsule_GetPointer(exchange.ptr(), "dlpack_exchange_api"));
      if (table == nullptr) throw py::error_already_set();
      if (table->major == kDlMajor) read_ = table->tensor_from_object;
    }
  }

  // Py_True: done. Py_False: these arguments must go through torch's dispatcher. Null: raised.
  PyObject* call(PyObject* const* args, Py_ssize_t count) {
    if (count != arguments()) {
      PyErr_Format(PyExc_TypeError, "expected %d arguments, got %zd", arguments(), count);
      return nullptr;
    }
    if (in_dispatch_mode()) return done(false);
    Key key;
    void* pointers[kMaxWords];
    int64_t values[kMaxWords];
    key.put(fingerprint());
    if (!read_tensors(args, key, pointers)) return done(false);
    if (!read_scalars(args + tensors_, key, values)) return done(false);
    PyObject* const* keywords = args + tensors_ + scalars_.size();
    if (!read_keywords(keywords, key) || !key.fits) return done(false);
    const uint64_t hash = key.hash();
    const Kept* kept = find(hash, key, keywords);
    if (kept == nullptr) {
      kept = make(hash, key, args, count);
      if (kept == nullptr) return nullptr;
    }
    // The plan must outlive a change of the table by another thread while the GIL is released.
    py::object owner = kept->owner;
    return launch(*kept->plan, pointers, values, args + tensors_) ? done(true) : nullptr;
  }

 private:
  int arguments() const { return tensors_ + static_cast<int>(scalars_.size()) + keywords_; }
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

  // The variables that steer a call, by content: KGEN_* and those the operator's rules name.
  int64_t fingerprint() const {
    uint64_t h = 7;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      if (steers(*entry)) h += hash_text(1469598103934665603ull, *entry);
    }
    return static_cast<int64_t>(h);
  }

  bool steers(const char* entry) const {
    if (std::strncmp(entry, "KGEN_", 5) == 0) return true;
    for (const auto& name : environment_) {
      if (entry[0] == name[0] && std::strncmp(entry, name.data(), name.size()) == 0) return true;
    }
    return false;
  }

  bool is_tensor(PyObject* object) const {
    for (const auto& type : tensor_types_) {
      if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == type.ptr()) return true;
    }
    return false;
  }

  bool read_tensors(PyObject* const* args, Key& key, void** pointers) {
    for (int i = 0; i < tensors_; ++i) {
      pointers[i] = nullptr;
      if (args[i] == Py_None) {
        key.put(kAbsent);
      } else if (!is_tensor(args[i]) || !read_tensor(args[i], key, pointers[i])) {
        PyErr_Clear();
        return false;
      }
    }
    return true;
  }

  bool read_tensor(PyObject* tensor, Key& key, void*& pointer) {
    return read_ != nullptr ? read_exchanged(tensor, key, pointer) : read_attributes(tensor, key, pointer);
  }

  bool read_exchanged(PyObject* tensor, Key& key, void*& pointer) {
    DlTensor t;
    if (read_(tensor, &t) != 0 || t.ndim > kMaxAxes) return false;
    key.put(static_cast<int64_t>(t.ndim) | static_cast<int64_t>(t.dtype.code) << 8 |
            static_cast<int64_t>(t.dtype.bits) << 16 | static_cast<int64_t>(t.device_type) << 24 |
            static_cast<int64_t>(t.device_id) << 40);
    for (int a = 0; a < t.ndim; ++a) key.put(t.shape[a]);
    for (int a = 0; a < t.ndim; ++a) key.put(t.strides[a]);
    pointer = static_cast<char*>(t.data) + t.byte_offset;
    return true;
  }

  bool read_attributes(PyObject* tensor, Key& key, void*& pointer) {
    static PyObject* const names[] = {intern("is_cpu"), intern("dtype"), intern("shape"), intern("stride"),
                                      intern("data_ptr")};
    const py::object cpu = steal(PyObject_GetAttr(tensor, names[0]));
    const py::object dtype = steal(PyObject_GetAttr(tensor, names[1]));
    const py::object shape = steal(PyObject_GetAttr(tensor, names[2]));
    if (cpu.ptr() != Py_True || !dtype || !shape || !PyTuple_Check(shape.ptr())) return false;
    const py::object strides = steal(PyObject_CallMethodNoArgs(tensor, names[3]));
    const py::object address = steal(PyObject_CallMethodNoArgs(tensor, names[4]));
    if (!strides || !address || PyTuple_GET_SIZE(shape.ptr()) > kMaxAxes) return false;
    key.put(static_cast<int64_t>(PyTuple_GET_SIZE(shape.ptr())));
    key.put(reinterpret_cast<int64_t>(dtype.ptr()));
    put_tuple(shape.ptr(), key);
    put_tuple(strides.ptr(), key);
    pointer = reinterpret_cast<void*>(PyLong_AsUnsignedLongLong(address.ptr()));
    return PyErr_Occurred() == nullptr;
  }

  static PyObject* intern(const char* name) { return PyUnicode_InternFromString(name); }
  static py::object steal(PyObject* object) { return py::reinterpret_steal<py::object>(object); }
  static void put_tuple(PyObject* tuple, Key& key) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      key.put(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
    }
  }

  bool read_scalars(PyObject* const* args, Key& key, int64_t* values) {
    for (size_t i = 0; i < scalars_.size(); ++i) {
      if (args[i] == Py_None) {
        key.put(kAbsent);
        continue;
      }
      if (!read_scalar(args[i], scalars_[i].is_float, values[i])) {
        PyErr_Clear();
        return false;
      }
      key.put(scalars_[i].steers ? values[i] : 0);
    }
    return true;
  }

  static bool read_scalar(PyObject* object, bool is_float, int64_t& value) {
    if (is_float) {
      const double number = PyFloat_Check(object) ? PyFloat_AS_DOUBLE(object) : PyFloat_AsDouble(object);
      std::memcpy(&value, &number, sizeof(value));
    } else {
      value = PyLong_CheckExact(object) ? PyLong_AsLongLong(object) : -1;
      if (!PyLong_CheckExact(object)) return false;
    }
    return PyErr_Occurred() == nullptr;
  }

  bool read_keywords(PyObject* const* args, Key& key) {
    for (int i = 0; i < keywords_; ++i) {
      const Py_hash_t hash = args[i] == Py_None ? 0 : PyObject_Hash(args[i]);
      if (hash == -1) {
        PyErr_Clear();
        return false;
      }
      key.put(hash);
    }
    return true;
  }

  const Kept* find(uint64_t hash, const Key& key, PyObject* const* keywords) {
    const auto bucket = table_.find(hash);
    if (bucket == table_.end()) return nullptr;
    for (const auto& kept : bucket->second) {
      if (kept.key.size() == static_cast<size_t>(key.size) &&
          std::memcmp(kept.key.data(), key.word, key.size * sizeof(int64_t)) == 0 &&
          same_keywords(kept.keywords, keywords)) {
        return &kept;
      }
    }
    return nullptr;
  }

  bool same_keywords(const py::tuple& kept, PyObject* const* keywords) const {
    for (int i = 0; i < keywords_; ++i) {
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
    py::tuple keywords(keywords_);
    for (int i = 0; i < keywords_; ++i) {
      keywords[i] = py::reinterpret_borrow<py::object>(args[count - keywords_ + i]);
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
    if (plan.kernel == nullptr) return true;
    int64_t block[kMaxWords];
    std::memcpy(block, plan.words.data(), plan.words.size() * sizeof(int64_t));
    for (int i = 0; i < tensors_; ++i) {
      if (plan.tensor_places[i] >= 0) block[plan.tensor_places[i]] = reinterpret_cast<int64_t>(pointers[i]);
    }
    for (size_t i = 0; i < scalars_.size(); ++i) {
      if (plan.scalar_places[i] >= 0 && scalars[i] != Py_None) block[plan.scalar_places[i]] = values[i];
    }
    if (plan.workspace_size > 0 && !place_workspace(plan, block)) return false;
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

  bool place_workspace(const Plan& plan, int64_t* block) {
    const py::object address =
        steal(PyObject_CallOneArg(services_.workspace.ptr(), py::int_(plan.workspace_size).ptr()));
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
    py::object answer =
        steal(PyObject_CallFunction(services_.fail.ptr(), "OiLLLL", plan.record.ptr(), status,
                                    static_cast<long long>(error[0]), static_cast<long long>(error[1]),
                                    static_cast<long long>(error[2]), static_cast<long long>(error[3])));
    if (answer) PyErr_SetString(PyExc_SystemError, "a kernel's error was not raised");
    return false;
  }

  // Places in the header (manifest.HEADER).
  enum { kError = 2, kParallel = 3, kThreadNum = 4, kThreads = 5 };

  int tensors_;
  std::vector<Scalar> scalars_;
  int keywords_;
  std::vector<std::string> environment_;
  std::vector<py::object> tensor_types_;
  Services services_;
  int (*read_)(void*, DlTensor*) = nullptr;
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
