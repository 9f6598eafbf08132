// Copying whole pages named by (source, destination) pairs. A block copies one slice of one pair's page.
#pragma once

#include "kgen/gpu/dialect.hpp"

namespace kgen {

constexpr int kSliceBytes = 16384;

// Pairs of page numbers as they stand in memory.
struct Mapping {
  Global<int64_t> pairs;
  int64_t count, stride;

  KGEN_DEVICE int64_t source(int64_t i) const { return pairs.load(i * stride); }
  KGEN_DEVICE int64_t destination(int64_t i) const { return pairs.load(i * stride + 1); }
};

// A tensor of pages, `stride` bytes from page to page.
struct Pages {
  int64_t address, count, stride, page_bytes;

  KGEN_DEVICE bool has(int64_t page) const { return page >= 0 && page < count; }
  KGEN_DEVICE Global<uint8_t> bytes() const {
    return Global<uint8_t>(address, (count - 1) * stride + page_bytes);
  }
};

// Whether the pair may be copied; reports what stands against it. Its destination must be no other
// pair's destination and, in one tensor, no other pair's source.
KGEN_DEVICE bool check_pair(const Mapping& mapping, int64_t pair, const Pages& from, const Pages& to,
                            int64_t error, int block_id_error, int overlap_error) {
  const int64_t source = mapping.source(pair);
  const int64_t destination = mapping.destination(pair);
  const bool first = thread_id() == 0;
  if (!from.has(source)) {
    if (first) report(error, block_id_error, pair, 0, source);
    return false;
  }
  if (!to.has(destination)) {
    if (first) report(error, block_id_error, pair, 1, destination);
    return false;
  }
  const bool one_tensor = from.address == to.address;
  bool fits = true;
  for (int64_t other = 0; other < mapping.count; ++other) {
    if (other == pair) continue;
    const bool clash =
        mapping.destination(other) == destination || (one_tensor && mapping.source(other) == destination);
    if (clash && first && fits) report(error, overlap_error, pair, other, destination);
    fits = fits && !clash;
  }
  return fits;
}

// Copies slice `slice` of a page with the threads of a block: 16 bytes at a time where both pages lie on
// multiples of 16.
KGEN_DEVICE void copy_slice(const Pages& from, int64_t source, const Pages& to, int64_t destination,
                            int64_t slice, int threads) {
  const Global<uint8_t> in = from.bytes();
  const Global<uint8_t> out = to.bytes();
  const int64_t read = source * from.stride;
  const int64_t write = destination * to.stride;
  const int64_t first = slice * kSliceBytes;
  const int64_t last = from.page_bytes - first < kSliceBytes ? from.page_bytes : first + kSliceBytes;
  const bool aligned = ((from.address + read) | (to.address + write)) % 16 == 0;
  const int64_t whole = aligned ? last - (last - first) % 16 : first;
  for (int64_t at = first + thread_id() * 16; at < whole; at += threads * 16) {
    out.store<16>(write + at, in.load<16>(read + at));
  }
  for (int64_t at = whole + thread_id(); at < last; at += threads) out.store(write + at, in.load(read + at));
}

}  // namespace kgen
