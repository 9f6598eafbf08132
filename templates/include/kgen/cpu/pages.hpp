// Copying whole pages named by (source, destination) pairs.
#pragma once

#include <unordered_map>

#include "kgen/cpu/parallel.hpp"

namespace kgen {

/// Pairs of page numbers as they stand in memory.
struct Mapping {
  const int64_t* pairs;
  int64_t count, stride;

  int64_t source(int64_t i) const { return pairs[i * stride]; }
  int64_t destination(int64_t i) const { return pairs[i * stride + 1]; }
};

/// A tensor of pages, `stride` bytes from page to page.
template <class Byte>
struct Pages {
  Byte* base;
  int64_t count, stride;

  Byte* at(int64_t page) const { return base + page * stride; }
  bool has(int64_t page) const { return page >= 0 && page < count; }
};

/// The pair that shares its destination with an earlier pair or, in one tensor, whose source is the
/// destination of another: what such a copy leaves behind would depend on the order.
struct Clash {
  int64_t pair, other;
};

/// The first clash, or {-1, -1}.
inline Clash find_clash(const Mapping& mapping, bool one_tensor) {
  std::unordered_map<int64_t, int64_t> writer;
  writer.reserve(static_cast<size_t>(mapping.count));
  for (int64_t i = 0; i < mapping.count; ++i) {
    const auto [found, added] = writer.emplace(mapping.destination(i), i);
    if (!added) return {i, found->second};
  }
  for (int64_t i = 0; one_tensor && i < mapping.count; ++i) {
    const auto found = writer.find(mapping.source(i));
    if (found != writer.end() && found->second != i) return {found->second, i};
  }
  return {-1, -1};
}

/// Copies `bytes` of every pair's source page to its destination page, cutting pages where that
/// shares the bytes out evenly. The mapping has no clash.
template <class Args>
void copy_pages(const Args& a, const Mapping& mapping, Pages<const uint8_t> from, Pages<uint8_t> to,
                int64_t bytes) {
  constexpr int64_t kWorthAThread = 262144;
  const int64_t total = mapping.count * bytes;
  const int64_t shares = shares_for(total, 1, kWorthAThread, a.num_threads);
  parallel(a, shares, [&](int64_t share) {
    const int64_t end = first_of_share(total, share + 1, shares);
    for (int64_t at = first_of_share(total, share, shares); at < end;) {
      const int64_t pair = at / bytes;
      const int64_t byte = at % bytes;
      const int64_t count = min(bytes - byte, end - at);
      const uint8_t* source = from.at(mapping.source(pair)) + byte;
      uint8_t* destination = to.at(mapping.destination(pair)) + byte;
      if (source != destination) std::memcpy(destination, source, static_cast<size_t>(count));
      at += count;
    }
  });
}

}  // namespace kgen
