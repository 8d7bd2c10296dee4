// Large untouched blocks: the cost of malloc and free themselves. Each workload runs for a fixed
// time and reports, per pair of malloc and free, CPU and wall time in picoseconds, and how often a
// million pairs had to wait for another thread.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

uint64_t now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(time.tv_nsec);
}

uint64_t warm_up_ns(const Arguments& arguments) {
  return kMillisecond * (arguments.short_form ? 1 : 30);
}

uint64_t measured_ns(const Arguments& arguments) {
  return kMillisecond * (arguments.short_form ? 4 : 150);
}

// work() does `count` pairs between two reads of the clock, and does them once even where the
// machine was too busy to let this thread begin in time. Returns the number of pairs done.
template <typename Work>
uint64_t repeat_until(uint64_t end_ns, size_t count, const Work& work) {
  uint64_t pairs = 0;
  do {
    work(count);
    pairs += count;
  } while (now(CLOCK_MONOTONIC) < end_ns);
  return pairs;
}

// What one thread did between begin() and end().
struct Share {
  uint64_t pairs = 0;
  uint64_t cpu_ns = 0;
  uint64_t started_ns = 0;
  uint64_t ended_ns = 0;
  uint64_t switches = 0;  // voluntary ones: it waited

  void begin() {
    switches = voluntary_switches();
    started_ns = now(CLOCK_MONOTONIC);
    cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
  }
  void end(uint64_t pairs_done) {
    cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
    ended_ns = now(CLOCK_MONOTONIC);
    switches = voluntary_switches() - switches;
    pairs = pairs_done;
  }

 private:
  static uint64_t voluntary_switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return static_cast<uint64_t>(usage.ru_nvcsw);
  }
};

void report_shares(const std::vector<Share>& shares) {
  Share all = shares[0];
  for (const Share& share : std::span(shares).subspan(1)) {
    all.pairs += share.pairs;
    all.cpu_ns += share.cpu_ns;
    all.switches += share.switches;
    all.started_ns = std::min(all.started_ns, share.started_ns);
    all.ended_ns = std::max(all.ended_ns, share.ended_ns);
  }
  report("pair_cpu_ps", all.cpu_ns * 1000 / all.pairs);
  report("pair_wall_ps", (all.ended_ns - all.started_ns) * 1000 / all.pairs);
  report("switches_per_million", all.switches * 1'000'000 / all.pairs);
}

// Sizes with a uniform logarithm, drawn before the clock starts.
class Sizes {
 public:
  Sizes(size_t low, size_t high, uint64_t seed) : table_(kCount) {
    Random random(seed);
    const double ratio = static_cast<double>(high) / static_cast<double>(low);
    for (size_t& size : table_) {
      const double unit = static_cast<double>(random.below(1U << 30)) * 0x1p-30;
      size = static_cast<size_t>(static_cast<double>(low) * std::pow(ratio, unit));
    }
  }
  size_t next() { return table_[next_++ % kCount]; }

 private:
  static constexpr size_t kCount = 8192;
  std::vector<size_t> table_;
  size_t next_ = 0;
};

struct Shape {
  size_t low = 0;
  size_t high = 0;
  size_t live = 0;
};

Shape shape_of(const char* text) {
  char* rest = nullptr;
  Shape shape;
  shape.low = strtoull(text, &rest, 10);
  if (*rest == '-') shape.high = strtoull(rest + 1, &rest, 10);
  if (*rest == '/') shape.live = strtoull(rest + 1, &rest, 10);
  if (shape.low == 0 || shape.high < shape.low || shape.live == 0) {
    fail(text, "want LOW-HIGH/LIVE");
  }
  return shape;
}

// Blocks of random sizes; a pair frees a random one and replaces it with a new one.
class LiveSet {
 public:
  LiveSet(const Shape& shape, uint64_t seed)
      : sizes_(shape.low, shape.high, seed), blocks_(shape.live, nullptr) {
    for (void*& block : blocks_) block = malloc(sizes_.next());
    state_ = static_cast<uint32_t>(seed);
  }
  ~LiveSet() {
    for (void* block : blocks_) free(block);
  }
  LiveSet(const LiveSet&) = delete;
  LiveSet& operator=(const LiveSet&) = delete;

  void replace(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      void*& block = blocks_[any()];
      free(block);
      block = malloc(sizes_.next());
      keep(block);
    }
  }

 private:
  // From a linear congruential generator, whose upper bits are good enough, and cheap.
  size_t any() {
    state_ = state_ * 1664525U + 1013904223U;
    return (uint64_t{state_} * blocks_.size()) >> 32;
  }

  Sizes sizes_;
  std::vector<void*> blocks_;
  uint32_t state_;
};

}  // namespace

// block_pair BYTES [threaded]: one block, freed before the next malloc. threaded: in a process that
// has had a second thread, as most with a device have; only then does glibc take its locks.
void run_block_pair(const Arguments& arguments, Meter& meter) {
  const auto pairs = [size = arguments.bytes](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      void* block = malloc(size);
      keep(block);
      free(block);
    }
  };
  constexpr size_t kAtOnce = 1024;
  if (strcmp(arguments.kind, "threaded") == 0) std::thread([] {}).join();
  repeat_until(now(CLOCK_MONOTONIC) + warm_up_ns(arguments), kAtOnce, pairs);
  std::vector<Share> shares(1);
  meter.start();
  shares[0].begin();
  shares[0].end(repeat_until(shares[0].started_ns + measured_ns(arguments), kAtOnce, pairs));
  meter.stop();
  report_shares(shares);
}

// block_set THREADS LOW-HIGH/LIVE: each thread replaces blocks of its own live set.
void run_block_set(const Arguments& arguments, Meter& meter) {
  const Shape shape = shape_of(arguments.kind);
  const size_t count = std::max<size_t>(arguments.bytes, 1);
  std::vector<Share> shares(count);
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(count));
  const auto body = [&](size_t self) {
    constexpr size_t kAtOnce = 64;
    LiveSet set(shape, self + 1);
    const auto pairs = [&](size_t pairs_at_once) { set.replace(pairs_at_once); };
    repeat_until(now(CLOCK_MONOTONIC) + warm_up_ns(arguments), kAtOnce, pairs);
    pthread_barrier_wait(&barrier);
    Share& share = shares[self];
    share.begin();
    share.end(repeat_until(share.started_ns + measured_ns(arguments), kAtOnce, pairs));
    pthread_barrier_wait(&barrier);  // nobody tears down while another thread is measured
  };
  meter.start();
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(body, i);
  body(0);
  for (std::thread& thread : threads) thread.join();
  meter.stop();
  pthread_barrier_destroy(&barrier);
  report_shares(shares);
}

// block_exchange: one thread mallocs batches of blocks of 64 KiB to 4 MiB, and another frees them
// while the next batch is made. Waiting for each other does not count as CPU time.
void run_block_exchange(const Arguments& arguments, Meter& meter) {
  constexpr size_t kBatch = 128;
  const size_t rounds = arguments.repeat(400);
  Sizes sizes(size_t{64} << 10, size_t{4} << 20, 1);
  std::vector<void*> batches[2] = {std::vector<void*>(kBatch), std::vector<void*>(kBatch)};
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, 2);
  uint64_t made_ns = 0;
  uint64_t freed_ns = 0;
  meter.start();
  std::thread freeing([&] {
    for (size_t round = 0; round <= rounds; ++round) {
      const uint64_t start = now(CLOCK_THREAD_CPUTIME_ID);
      // Frees nothing in the first round.
      for (void*& block : batches[(round + 1) % 2]) free(std::exchange(block, nullptr));
      freed_ns += now(CLOCK_THREAD_CPUTIME_ID) - start;
      pthread_barrier_wait(&barrier);
    }
  });
  for (size_t round = 0; round <= rounds; ++round) {
    const uint64_t start = now(CLOCK_THREAD_CPUTIME_ID);
    for (void*& block : batches[round % 2]) {
      if (round < rounds) keep(block = malloc(sizes.next()));
    }
    made_ns += now(CLOCK_THREAD_CPUTIME_ID) - start;
    pthread_barrier_wait(&barrier);
  }
  freeing.join();
  meter.stop();
  pthread_barrier_destroy(&barrier);
  report("pair_cpu_ps", (made_ns + freed_ns) * 1000 / (rounds * kBatch));
  report("pair_wall_ps", meter.wall_ns() * 1000 / (rounds * kBatch));
}

}  // namespace rdmalloc::bench
