// The banks of shared memory: for how many cycles lanes of a wave wait for one another.
//
// A wave's access is served in phases of at most 128 bytes: 32 lanes of up to 4 bytes, 16 of 8, 8 of 16. In a
// phase a bank gives one word; each further word that lanes ask of it takes a cycle more. Lanes that ask for
// one word share it. Phases are lanes that follow one another. KGEN_CROSSED_READS: but for reads of 16 bytes,
// by lanes 0 to 3 and 20 to 23, 4 to 7 and 16 to 19, 8 to 11 and 28 to 31, 12 to 15 and 24 to 27, and so on.
//
// Lanes run one after another here. What they do at one line of the kernel, for the n-th time since their
// wave last met, counts as one access of the wave.
#pragma once

#include "kgen/sim/machine.hpp"

namespace kgen::sim {

constexpr int kBanks = 32;
constexpr int kBankBytes = 4;

class Banks {
 public:
  void reset() {
    forget();
    conflicts_ = 0;
  }

  // The running lane touches `bytes` bytes from `first` on.
  void touch(int first, int bytes, bool writes, Where where) {
    if (turn_ != machine().turn) settle();
    turn_ = machine().turn;
    const int lane = machine().lane();
    Site& site = site_of(where, bytes, writes);
    const bool again = site.lane == lane;
    const int next = again ? accesses_[site.access].next : site.start;
    site.access = next >= 0 ? next : add_access(again ? site.access : -1, bytes, writes);
    if (site.start < 0) site.start = site.access;
    site.lane = lane;
    accesses_[site.access].asks[lane] = first + 1;
  }

  // Cycles that the accesses so far took beyond one a phase.
  int64_t conflicts() {
    settle();
    return conflicts_;
  }

 private:
  // One access of a wave: where each lane asks, plus 1; 0 where it does not.
  struct Lanes {
    int bytes, next;
    bool writes;
    int asks[kWaveLanes];
  };
  // A line that touches it: its accesses since the wave last met, and where among them the lane is that was
  // there last.
  struct Site {
    Where where;
    int bytes, lane, start, access;
    bool writes;
  };
  struct Words {
    int count, at[kWaveLanes];
  };

  Site& site_of(Where where, int bytes, bool writes) {
    for (Site& site : sites_) {
      const bool same = site.where.line == where.line && strcmp(site.where.file, where.file) == 0;
      if (same && site.bytes == bytes && site.writes == writes) return site;
    }
    sites_.push({where, bytes, -1, -1, -1, writes});
    return sites_[sites_.size() - 1];
  }

  int add_access(int before, int bytes, bool writes) {
    const int added = static_cast<int>(accesses_.size());
    Lanes lanes{};
    lanes.bytes = bytes;
    lanes.writes = writes;
    lanes.next = -1;
    accesses_.push(lanes);
    if (before >= 0) accesses_[before].next = added;
    return added;
  }

  static int phase_of(int lane, const Lanes& access) {
    if (access.bytes <= kBankBytes) return lane / 32;
    if (access.bytes <= 2 * kBankBytes) return lane / 16;
#if defined(KGEN_CROSSED_READS)
    const int four = lane / 4 % 8;
    if (!access.writes) return lane / 32 * 4 + (four < 4 ? four : (four - 4) ^ 1);
#endif
    return lane / 8;
  }

  static int cycles_lost(const Lanes& access) {
    int most[kWaveLanes / 8 + 1] = {};
    for (int phase = 0; phase <= kWaveLanes / 8; ++phase) {
      Words words[kBanks];
      for (Words& bank : words) bank.count = 0;
      for (int lane = 0; lane < kWaveLanes; ++lane) {
        if (access.asks[lane] == 0 || phase_of(lane, access) != phase) continue;
        const int first = access.asks[lane] - 1;
        for (int word = first / kBankBytes; word * kBankBytes < first + access.bytes; ++word) {
          const int count = added(words[word % kBanks], word);
          if (count > most[phase]) most[phase] = count;
        }
      }
    }
    int lost = 0;
    for (const int cycles : most) lost += cycles > 1 ? cycles - 1 : 0;
    return lost;
  }

  static int added(Words& bank, int word) {
    for (int i = 0; i < bank.count; ++i) {
      if (bank.at[i] == word) return bank.count;
    }
    bank.at[bank.count++] = word;
    return bank.count;
  }

  void settle() {
    for (const Lanes& access : accesses_) conflicts_ += cycles_lost(access);
    forget();
  }
  void forget() {
    accesses_.clear();
    sites_.clear();
  }

  Array<Lanes> accesses_;
  Array<Site> sites_;
  uint32_t turn_ = 0;
  int64_t conflicts_ = 0;
};

inline Banks the_banks;

inline Banks& banks() { return the_banks; }

}  // namespace kgen::sim
