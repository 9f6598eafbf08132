// Which products read shared memory while their waves go on, and until when.
#pragma once

#include "kgen/sim/machine.hpp"

namespace kgen::sim {

// A batch of products of a group is over for a wave once that has waited for it. Writers of what it reads
// must know that all four waves have.
class Reading {
 public:
  // Products of a group's batch read these bytes of shared memory, by a line of the kernel.
  void read(int group, uint32_t batch, int first, int bytes) {
    const int last = (first + bytes - 1) / kPiece;
    if (pieces_.size() <= static_cast<size_t>(last)) pieces_.resize(last + 1);
    for (int i = first / kPiece; i <= last; ++i) {
      Piece& piece = pieces_[i];
      if (piece.serial != machine().serial) piece = {machine().serial, {}};
      piece.read_in[group] = batch + 1;
    }
    any_in_ = machine().serial;
  }

  void write(int first, int bytes, Where where) {
    if (any_in_ != machine().serial) return;
    for (int i = first / kPiece; i <= (first + bytes - 1) / kPiece; ++i) {
      if (static_cast<size_t>(i) >= pieces_.size() || pieces_[i].serial != machine().serial) continue;
      for (int group = 0; group < kMostGroups; ++group) {
        if (pieces_[i].read_in[group] != 0) check(group, pieces_[i].read_in[group] - 1, i * kPiece, where);
      }
    }
  }

  // A wave of the group, which has met, has waited for the batch.
  void end(int group, uint32_t batch, int wave) {
    Batch& it = batch_of(group, batch);
    if (it.over[wave]) return;  // its first lane has said so
    it.epoch[wave] = machine().epoch;
    it.over[wave] = true;
    for (int i = 0; i < kWaveLanes; ++i) {
      it.time[wave * kWaveLanes + i] = clocks().now(group * kGroupThreads + wave * kWaveLanes + i);
    }
  }

 private:
  static constexpr int kPiece = 16;
  static constexpr int kWaves = kGroupThreads / kWaveLanes;

  struct Piece {
    uint32_t serial;
    uint32_t read_in[kMostGroups];  // the newest batch that reads it, plus 1
  };
  struct Batch {
    bool over[kWaves];
    uint32_t epoch[kWaves];
    uint32_t time[kGroupThreads];
  };

  Batch& batch_of(int group, uint32_t batch) {
    if (serial_ != machine().serial) {
      serial_ = machine().serial;
      for (Array<Batch>& each : batches_) each.clear();
    }
    if (batches_[group].size() <= batch) batches_[group].resize(batch + 1);
    return batches_[group][batch];
  }

  void check(int group, uint32_t batch, int byte, Where where) {
    const Batch& it = batch_of(group, batch);
    for (int wave = 0; wave < kWaves; ++wave) {
      const int first = group * kGroupThreads + wave * kWaveLanes;
      if (!it.over[wave]) {
        machine().stop(where, "LDS race, write while a product reads: byte %d, for wave %d of group %d", byte,
                       wave, group);
      }
      if (it.epoch[wave] == machine().epoch && !known(it, wave, first)) {
        machine().stop(where,
                       "LDS race, write after a product: wave %d of group %d does not tell that it has "
                       "waited for its products with byte %d",
                       wave, group, byte);
      }
    }
  }

  bool known(const Batch& it, int wave, int first) const {
    const int writer = machine().current;
    for (int i = 0; i < kWaveLanes; ++i) {
      if (first + i == writer || clocks().knows(writer, first + i, it.time[wave * kWaveLanes + i]))
        return true;
    }
    return false;
  }

  uint32_t any_in_ = 0, serial_ = 0;
  Array<Piece> pieces_;
  Array<Batch> batches_[kMostGroups];
};

inline Reading the_reading;

inline Reading& reading() { return the_reading; }

}  // namespace kgen::sim
