// The key of a call: the integers that its plan depends on, and the environment as one of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

namespace kgen {

constexpr int kMaxWords = 256;  // of a key or a block; what is larger goes the slow way
constexpr int64_t kAbsent = INT64_MIN;

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

inline uint64_t hash_text(uint64_t h, const char* text) {
  for (; *text; ++text) h = (h ^ static_cast<unsigned char>(*text)) * 1099511628211ull;
  return h;
}

// The variables that steer a call, by content: KGEN_* and those the operator's rules name.
class Environment {
 public:
  explicit Environment(std::vector<std::string> names) : names_(std::move(names)) {}

  // Strings are looked at when one of them is another: who sets a variable puts a new string in its place. Of
  // those that steer the content is looked at each time.
  int64_t fingerprint() {
    const uint64_t place = places();
    if (place != places_) {
      steering_.clear();
      for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        if (steers(*entry)) steering_.push_back(*entry);
      }
      places_ = place;
    }
    uint64_t h = 7;
    for (const char* entry : steering_) h += hash_text(1469598103934665603ull, entry);
    return static_cast<int64_t>(h);
  }

 private:
  // A number that is another when one string is: each has an odd factor.
  static uint64_t places() {
    uint64_t sum = 0, factor = 1;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry, factor += 2) {
      sum += reinterpret_cast<uint64_t>(*entry) * factor;
    }
    return sum + factor;
  }

  bool steers(const char* entry) const {
    if (std::strncmp(entry, "KGEN_", 5) == 0) return true;
    for (const auto& name : names_) {
      if (entry[0] == name[0] && std::strncmp(entry, name.data(), name.size()) == 0) return true;
    }
    return false;
  }

  std::vector<std::string> names_;  // each with its '='
  std::vector<const char*> steering_;
  uint64_t places_ = 0;
};

}  // namespace kgen
