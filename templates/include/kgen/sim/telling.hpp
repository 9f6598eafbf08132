// What the blocks of a launch tell each other of device memory. A thread releases what it wrote. An addition
// to a word announces, of each thread of its block, the releases that the adding thread knows of, and tells
// it what was announced by additions to that word before. A thread that knows of such an addition acquires
// what it told.
#pragma once

#include "kgen/sim/chains.hpp"
#include "kgen/sim/stamps.hpp"

namespace kgen::sim {

class Telling {
 public:
  // Between launches: what came before one is there for all of its blocks.
  void forget() {
    serial_ = 0;
    releases_.release();
    announcements_.release();
    counts_.release();
    words_.release();
    heard_.release();
    acquired_.release();
  }

  // Releases of the running thread so far.
  uint32_t releases() {
    const uint32_t last = member(machine().current).release;
    return last == 0 ? 0 : releases_[last].count;
  }

  void release() {
    const uint32_t count = releases() + 1;
    if (releases_.size() == 0) releases_.push({});
    Member& own = member(machine().current);
    releases_.push({this_access(), block(), count, own.acquired, own.release});
    own.release = static_cast<uint32_t>(releases_.size()) - 1;
    any_release_ = true;
  }

  void acquire() {
    Member& own = member(machine().current);
    own.acquired = 0;
    for (const Told& told : tolds_) {
      if (is_before(told.when, this_access())) own.acquired = acquired_.add(told.heard, own.acquired);
    }
  }

  // The running thread adds to a word.
  void add(uintptr_t at) {
    member(machine().current);
    Word& word = word_at(at);
    if (word.heard != 0) tolds_.push({this_access(), word.heard});
    if (any_release_) announce(word);
  }

  // A store to these bytes: who adds to a word there later is told nothing of what was added before.
  void overwrite(uintptr_t first, int bytes) {
    for (Word& word : words_) {
      if (word.at >= first && word.at < first + bytes) word.heard = 0;
    }
  }

  // Whether the running thread has acquired what a thread of another block did.
  bool knows(const Stamp& past) {
    for (uint32_t i = member(machine().current).acquired; i != 0; i = acquired_[i].before) {
      if (tells(acquired_[i].item, past)) return true;
    }
    return false;
  }

  // Why it has not.
  const char* reason(const Stamp& past) {
    if (!released(past)) return "did not release it";
    bool announced = false;
    for (const Announcement& each : announcements_) announced |= tells(each, past);
    if (!announced) return "released it, but no fetch_add of its block is known to come after that";
    for (const Told& told : tolds_) {
      if (tells(told.heard, past))
        return "announced it to this block, but this thread has not acquired it since";
    }
    return "announced it, but no fetch_add has told this block";
  }

 private:
  struct Release {
    Access when;
    uint32_t block, count;
    uint32_t acquired;  // what the thread had acquired
    uint32_t before;    // its release before this one, 0: none
  };
  struct Announcement {
    uint32_t block, first;  // first: of its counts, one a thread
  };
  struct Told {
    Access when;
    uint32_t heard;
  };
  struct Word {
    uintptr_t at;
    uint32_t heard;  // chain of announcements
  };
  struct Member {
    uint32_t release;   // its last, 0: none
    uint32_t acquired;  // chain of chains of announcements
  };

  static uint32_t block() { return static_cast<uint32_t>(machine().number); }

  Member& member(int thread) {
    if (serial_ != machine().serial) {
      serial_ = machine().serial;
      any_release_ = false;
      tolds_.clear();
      members_.clear();
      members_.resize(machine().threads());
    }
    return members_[thread];
  }

  Word& word_at(uintptr_t at) {
    for (Word& word : words_) {
      if (word.at == at) return word;
    }
    words_.push({at, 0});
    return words_[words_.size() - 1];
  }

  void announce(Word& word) {
    const Access now = this_access();
    const Announcement own = {block(), static_cast<uint32_t>(counts_.size())};
    uint32_t passed_on = 0;
    bool any = false;
    for (int thread = 0; thread < machine().threads(); ++thread) {
      uint32_t i = members_[thread].release;
      while (i != 0 && !is_before(releases_[i].when, now)) i = releases_[i].before;
      counts_.push(i == 0 ? 0 : releases_[i].count);
      any |= i != 0;
      if (i == 0 || releases_[i].acquired == passed_on) continue;  // most threads acquire alike
      passed_on = releases_[i].acquired;
      pass_on(passed_on, word);
    }
    if (!any) return;
    word.heard = heard_.add(static_cast<uint32_t>(announcements_.size()), word.heard);
    announcements_.push(own);
  }

  // What a thread acquired before its release is announced with it.
  void pass_on(uint32_t acquired, Word& word) {
    for (; acquired != 0; acquired = acquired_[acquired].before) {
      for (uint32_t i = acquired_[acquired].item; i != 0; i = heard_[i].before) {
        const uint32_t item = heard_[i].item;
        if (!heard_.has(word.heard, item)) word.heard = heard_.add(item, word.heard);
      }
    }
  }

  bool tells(const Announcement& said, const Stamp& past) {
    return said.block == past.block && counts_[said.first + past.access.thread] > past.releases;
  }
  bool tells(uint32_t heard, const Stamp& past) {
    for (; heard != 0; heard = heard_[heard].before) {
      if (tells(announcements_[heard_[heard].item], past)) return true;
    }
    return false;
  }

  bool released(const Stamp& past) {
    for (const Release& each : releases_) {
      const bool same = each.block == past.block && each.when.thread == past.access.thread;
      if (same && each.count > past.releases) return true;
    }
    return false;
  }

  uint32_t serial_ = 0;  // of the block that the members and what they were told are of
  bool any_release_ = false;
  Array<Member> members_;
  Array<Told> tolds_;
  Array<Release> releases_;
  Array<Announcement> announcements_;
  Array<uint32_t> counts_;
  Array<Word> words_;
  Chains heard_, acquired_;
};

inline Telling the_telling;

inline Telling& telling() { return the_telling; }

}  // namespace kgen::sim
