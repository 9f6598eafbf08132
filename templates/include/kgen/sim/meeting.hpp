// Where the lanes of a wave meet.
#pragma once

#include "kgen/sim/machine.hpp"

namespace kgen::sim {

// Shows `mine` to the wave, waits until every lane has shown its own, and can then read any of them.
template <typename T>
class Meeting {
 public:
  Meeting(const T& mine, const char* word, Where where)
      : shown_(machine().wave().shown[machine().wave().syncs & 1]) {
    static_assert(sizeof(T) <= kShownBytes, "a lane shows at most 64 bytes at a time");
    memcpy(shown_[machine().lane()], &mine, sizeof(T));
    machine().wait(State::kAtWave, word, where);
  }

  T of(int lane) const {
    T value;
    memcpy(&value, shown_[lane], sizeof(T));
    return value;
  }

 private:
  unsigned char (*shown_)[kShownBytes];
};

}  // namespace kgen::sim
