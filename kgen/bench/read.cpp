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

constexpr int64_t kLine = 64;

struct Nothing {
  void operator()() const {}
};

// Reads a span; each_line() before every cache line of it.
template <class EachLine = Nothing>
int64_t read_span(const char* data, int64_t bytes, EachLine each_line = {}) {
  Vector sums[kUnroll] = {};
  int64_t at = 0;
  for (; at + kUnroll * kVectorBytes <= bytes; at += kUnroll * kVectorBytes) {
    for (int i = 0; i < kUnroll; ++i) {
      if (i * kVectorBytes % kLine == 0) each_line();
      sums[i] ^= *reinterpret_cast<const Vector*>(data + at + i * kVectorBytes);
    }
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

namespace {

// The pages that a thread reads: of K and V by turns, in table order.
struct Pages {
  const char *k, *v;
  const int32_t* table;
  int64_t bytes, stride, begin, end;

  Pages(const int64_t* a, int thread, int threads)
      : k(reinterpret_cast<const char*>(a[4])),
        v(reinterpret_cast<const char*>(a[5])),
        table(reinterpret_cast<const int32_t*>(a[6])),
        bytes(a[8]),
        stride(a[9]),
        begin(a[7] * thread / threads),
        end(a[7] * (thread + 1) / threads) {}

  template <class EachLine>
  int64_t read(EachLine each_line) const {
    int64_t sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      sum ^= read_span(k + table[i] * stride, bytes, each_line);
      sum ^= read_span(v + table[i] * stride, bytes, each_line);
    }
    return sum;
  }
};

// Asks for the lines of those pages in the order in which they are read.
class Ahead {
 public:
  explicit Ahead(const Pages& pages) : pages_(pages), page_(2 * pages.begin) {
    if (pages.begin < pages.end) enter();
  }

  void fetch() {
    __builtin_prefetch(line_, 0, 3);
    line_ += kLine;
    if (line_ < end_) return;
    if (page_ + 1 < 2 * pages_.end) ++page_;
    enter();
  }

 private:
  void enter() {
    line_ = (page_ % 2 ? pages_.v : pages_.k) + pages_.table[page_ / 2] * pages_.stride;
    end_ = line_ + pages_.bytes;
  }

  const Pages& pages_;
  int64_t page_;
  const char *line_ = nullptr, *end_ = nullptr;
};

constexpr int kLinesAhead = 96;

}  // namespace

// k, v, table (int32), entries, page_bytes, page_stride (bytes): the pages of K and V in table order.
KGEN_EXPORT int kgen_read_pages(const int64_t* args) {
  Team{args,
       [](const int64_t* a, int thread, int threads) {
         *sum_of(a, thread) = Pages(a, thread, threads).read(Nothing{});
       }}
      .run();
  return 0;
}

// The same, each line asked for kLinesAhead lines before it is read.
KGEN_EXPORT int kgen_read_pages_ahead(const int64_t* args) {
  Team{args,
       [](const int64_t* a, int thread, int threads) {
         const Pages pages(a, thread, threads);
         *sum_of(a, thread) = 0;
         if (pages.begin == pages.end) return;
         Ahead ahead(pages);
         for (int i = 0; i < kLinesAhead; ++i) ahead.fetch();
         *sum_of(a, thread) = pages.read([&] { ahead.fetch(); });
       }}
      .run();
  return 0;
}
