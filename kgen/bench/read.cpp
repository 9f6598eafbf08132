// The ceilings a bandwidth-bound kernel is measured against: loops that read memory and do nothing
// else, on the same threads and with the same vector width as the kernels.
//
// Argument block (int64 words): parallel, thread_num, num_threads, sums, then what each entry says.
// `sums` holds one int64 per thread, so that the reads have a use.

#include <cstddef>
#include <cstdint>
#include <cstring>

#define KGEN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

typedef int64_t Vector __attribute__((vector_size(kVectorBytes), aligned(1), may_alias));
constexpr int kUnroll = 8;

using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
using ThreadNum = int (*)();

int64_t read_span(const char* data, int64_t bytes) {
  Vector sums[kUnroll] = {};
  int64_t at = 0;
  for (; at + kUnroll * kVectorBytes <= bytes; at += kUnroll * kVectorBytes)
    for (int i = 0; i < kUnroll; ++i)
      sums[i] ^= *reinterpret_cast<const Vector*>(data + at + i * kVectorBytes);
  int64_t sum = 0;
  for (int64_t word; at + 8 <= bytes; at += 8) {
    std::memcpy(&word, data + at, 8);
    sum ^= word;
  }
  for (; at < bytes; ++at) sum ^= data[at];
  for (int i = 0; i < kUnroll; ++i)
    for (size_t j = 0; j < kVectorBytes / sizeof(int64_t); ++j) sum ^= sums[i][j];
  return sum;
}

struct Team {
  const int64_t* args;
  void (*work)(const int64_t* args, int thread, int threads);

  void run() {
    const auto threads = static_cast<unsigned>(args[2]);
    const auto parallel = reinterpret_cast<Parallel>(args[0]);
    if (parallel == nullptr || threads <= 1)
      work(args, 0, 1);
    else
      parallel(enter, this, threads, 0);
  }

  static void enter(void* self) {
    const Team& team = *static_cast<Team*>(self);
    const int thread = reinterpret_cast<ThreadNum>(team.args[1])();
    team.work(team.args, thread, static_cast<int>(team.args[2]));
  }
};

int64_t* sum_of(const int64_t* args, int thread) { return reinterpret_cast<int64_t*>(args[3]) + thread; }

}  // namespace

// data, bytes: one span, cut evenly.
KGEN_EXPORT int kgen_read_stream(const int64_t* args) {
  Team{args,
       [](const int64_t* a, int thread, int threads) {
         const int64_t begin = a[5] / 64 * thread / threads * 64;
         const int64_t end = thread + 1 == threads ? a[5] : a[5] / 64 * (thread + 1) / threads * 64;
         *sum_of(a, thread) = read_span(reinterpret_cast<const char*>(a[4]) + begin, end - begin);
       }}
      .run();
  return 0;
}

// k, v, table (int32), entries, page_bytes, page_stride (bytes): the pages of K and V in table order.
KGEN_EXPORT int kgen_read_pages(const int64_t* args) {
  Team{args,
       [](const int64_t* a, int thread, int threads) {
         const auto* k = reinterpret_cast<const char*>(a[4]);
         const auto* v = reinterpret_cast<const char*>(a[5]);
         const auto* table = reinterpret_cast<const int32_t*>(a[6]);
         int64_t sum = 0;
         for (int64_t i = a[7] * thread / threads; i < a[7] * (thread + 1) / threads; ++i) {
           sum ^= read_span(k + table[i] * a[9], a[8]);
           sum ^= read_span(v + table[i] * a[9], a[8]);
         }
         *sum_of(a, thread) = sum;
       }}
      .run();
  return 0;
}
