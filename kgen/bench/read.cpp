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
constexpr int kLine = 64;
constexpr int kDistance = 256;  // lines between asking and reading: what two cores have under way, and more
constexpr int64_t kPage = 4096;

using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
using ThreadNum = int (*)();

// `ask` is called once for every line of 64 bytes.
template <class Ask>
int64_t read_span(const char* data, int64_t bytes, Ask ask) {
  Vector sums[kUnroll] = {};
  int64_t at = 0;
  for (; at + kUnroll * kVectorBytes <= bytes; at += kUnroll * kVectorBytes)
    for (int i = 0; i < kUnroll; ++i) {
      if (i % (kLine / kVectorBytes) == 0) ask();
      sums[i] ^= *reinterpret_cast<const Vector*>(data + at + i * kVectorBytes);
    }
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

// Pages of K and V by turns: number 2 i is the K page of entry i of the table, 2 i + 1 its V page.
struct Pages {
  const char* k;
  const char* v;
  const int32_t* table;
  int64_t entries, bytes, stride;

  explicit Pages(const int64_t* a)
      : k(reinterpret_cast<const char*>(a[4])),
        v(reinterpret_cast<const char*>(a[5])),
        table(reinterpret_cast<const int32_t*>(a[6])),
        entries(a[7]),
        bytes(a[8]),
        stride(a[9]) {}

  // The first page of a thread's share.
  int64_t first(int thread, int threads) const { return 2 * (entries * thread / threads); }

  const char* at(int64_t i) const { return (i % 2 == 0 ? k : v) + table[i / 2] * stride; }
};

// Asks for lines kDistance before they are read, across the ends of pages, and once more half way: a core
// with too many lines under way drops some of what it is asked for. A scout goes ahead to where pages of the
// machine begin, since finding one takes as long as reading it.
class Lookahead {
 public:
  Lookahead(const Pages& pages, int64_t begin, int64_t end)
      : scout_{pages, begin, end}, first_{pages, begin, end}, second_{pages, begin, end} {
    scout_.ask(kPage);
    for (int i = 0; i < kDistance; ++i) ask_first();
    for (int i = 0; i < kDistance / 2; ++i) second_.ask(kLine);
  }

  void ask() {
    ask_first();
    second_.ask(kLine);
  }

 private:
  void ask_first() {
    if (first_.offset % kPage == 0) scout_.ask(kPage);
    first_.ask(kLine);
  }

  struct Cursor {
    const Pages& pages;
    int64_t page, end, offset = 0;
    const char* data = pages.at(page);

    void ask(int64_t step) {
      __builtin_prefetch(data + offset);
      offset += step;
      if (__builtin_expect(offset < pages.bytes, true)) return;
      offset = 0;
      if (page + 1 < end) ++page;
      data = pages.at(page);
    }
  };

  Cursor scout_, first_, second_;
};

struct Team {
  const int64_t* args;
  void (*work)(const int64_t* args, int thread, int threads);

  int run() {
    const auto threads = static_cast<unsigned>(args[2]);
    const auto parallel = reinterpret_cast<Parallel>(args[0]);
    if (parallel == nullptr || threads <= 1)
      work(args, 0, 1);
    else
      parallel(enter, this, threads, 0);
    return 0;
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
  return Team{args,
              [](const int64_t* a, int thread, int threads) {
                const int64_t begin = a[5] / 64 * thread / threads * 64;
                const int64_t end = thread + 1 == threads ? a[5] : a[5] / 64 * (thread + 1) / threads * 64;
                const char* data = reinterpret_cast<const char*>(a[4]) + begin;
                int64_t asked = kDistance * kLine;
                *sum_of(a, thread) = read_span(data, end - begin, [&] {
                  __builtin_prefetch(data + asked);
                  if (asked % kPage == 0) __builtin_prefetch(data + asked + kPage);
                  asked += kLine;
                });
              }}
      .run();
}

// k, v, table (int32), entries, page_bytes, page_stride (bytes): the pages of K and V in table order.
KGEN_EXPORT int kgen_read_pages(const int64_t* args) {
  return Team{args,
              [](const int64_t* a, int thread, int threads) {
                const Pages pages(a);
                int64_t sum = 0;
                for (int64_t i = pages.first(thread, threads); i < pages.first(thread + 1, threads); ++i)
                  sum ^= read_span(pages.at(i), pages.bytes, [] {});
                *sum_of(a, thread) = sum;
              }}
      .run();
}

// The same, every line asked for before it is read.
KGEN_EXPORT int kgen_read_pages_ahead(const int64_t* args) {
  return Team{args,
              [](const int64_t* a, int thread, int threads) {
                const Pages pages(a);
                const int64_t begin = pages.first(thread, threads), end = pages.first(thread + 1, threads);
                int64_t sum = 0;
                *sum_of(a, thread) = sum;
                if (begin == end) return;
                Lookahead ahead(pages, begin, end);
                for (int64_t i = begin; i < end; ++i)
                  sum ^= read_span(pages.at(i), pages.bytes, [&] { ahead.ask(); });
                *sum_of(a, thread) = sum;
              }}
      .run();
}
