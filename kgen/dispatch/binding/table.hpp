// The plans of one operator, by what they depend on.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <utility>

#include "key.hpp"
#include "plan.hpp"

namespace kgen {

struct Kept {
  Words key;
  py::tuple keywords;
  py::object owner;
  const Plan* plan;
};

class Table {
 public:
  // Plans of one key differ in their ranges; the one found last is looked at first. Null: there is none.
  const Kept* find(const Key& key, const int64_t* values, PyObject* const* keywords) {
    if (last_ != nullptr && is(*last_, key, values, keywords)) return last_;
    const auto found = buckets_.find(key.hash());
    if (found == buckets_.end()) return nullptr;
    for (const Kept& kept : found->second) {
      if (is(kept, key, values, keywords)) return last_ = &kept;
    }
    return nullptr;
  }

  const Kept* keep(const Key& key, py::tuple keywords, py::object owner, const Plan* plan) {
    if (plans_ >= kMaxPlans) {
      buckets_.clear();
      plans_ = 0;
    }
    auto& bucket = buckets_[key.hash()];
    bucket.push_back(Kept{Words(key.word, key.word + key.size), std::move(keywords), std::move(owner), plan});
    ++plans_;
    return last_ = &bucket.back();
  }

 private:
  static constexpr size_t kMaxPlans = 1024;

  static bool is(const Kept& kept, const Key& key, const int64_t* values, PyObject* const* keywords) {
    return kept.key.size() == static_cast<size_t>(key.size) &&
           std::memcmp(kept.key.data(), key.word, key.size * sizeof(int64_t)) == 0 &&
           kept.plan->covers(values) && same(kept.keywords, keywords);
  }

  static bool same(const py::tuple& kept, PyObject* const* keywords) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kept.ptr()); ++i) {
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

  std::unordered_map<uint64_t, std::deque<Kept>> buckets_;
  size_t plans_ = 0;
  const Kept* last_ = nullptr;
};

}  // namespace kgen
