// Getting a buffer and putting it back: our pool (including the buffer's key), UCX's ucs_mpool, and
// rdmalloc's malloc and free (without a key, and with rdm_lookup), in one process and one run.
//
// ucs_mpool is single-threaded: with several threads, each side of it is wrapped in a lock, as UCX
// does. In a burst, several buffers are in use at a time; in an exchange, each thread puts what the
// other got.
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <barrier>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "bench/lookup/race.h"
#include "bench/peers/free_device.h"
#include "bench/support/allocator.h"
#include "bench/support/can_lock.h"
#include "bench/support/contest.h"
#include "include/rdmalloc/pool.h"
#if BENCH_HAS_UCX
#include <ucs/datastruct/mpool.h>
#endif

using namespace rdmalloc::bench;

namespace {

constexpr size_t kLocked = size_t{64} << 20;
constexpr size_t kBytes = 4096;
constexpr size_t kMostThreads = 2;
constexpr size_t kMostOut = 128;
constexpr unsigned kBuffers = 4096;

enum Subject { kPool, kMalloc, kMallocLookup, kUcs, kUcsSpin, kUcsMutex, kSubjects };
constexpr const char* kNames[kSubjects] = {"rdm_pool",  "malloc",         "malloc+lookup",
                                           "ucs_mpool", "ucs_mpool+spin", "ucs_mpool+mutex"};

enum class Pattern { kPairs, kBursts, kExchange };

const rdm_domain* domain;
rdm_pool* pool;
pthread_spinlock_t spin;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct PoolWay {
  static void* get() {
    rdm_buffer buffer;
    if (rdm_pool_get(pool, &buffer) != RDM_OK) abort();
    asm volatile("" : : "r"(buffer.lkey));
    return buffer.address;
  }
  static void put(void* address) {
    if (rdm_pool_put(pool, address) != RDM_OK) abort();
  }
};

struct MallocWay {
  static void* get() { return malloc(kBytes); }
  static void put(void* address) { free(address); }
};

struct MallocLookupWay {
  static void* get() {
    void* const address = malloc(kBytes);
    rdm_mr mr;
    if (rdm_lookup(domain, address, kBytes, &mr) != RDM_OK) abort();
    asm volatile("" : : "r"(mr.lkey));
    return address;
  }
  static void put(void* address) { free(address); }
};

#if BENCH_HAS_UCX
ucs_mpool_t ucs_pool;
ucs_mpool_ops_t ucs_ops = {ucs_mpool_chunk_malloc, ucs_mpool_chunk_free, nullptr, nullptr, nullptr};

struct UcsWay {
  static void* get() { return ucs_mpool_get(&ucs_pool); }
  static void put(void* address) { ucs_mpool_put(address); }
};
struct UcsSpinWay {
  static void* get() {
    pthread_spin_lock(&spin);
    void* const address = ucs_mpool_get(&ucs_pool);
    pthread_spin_unlock(&spin);
    return address;
  }
  static void put(void* address) {
    pthread_spin_lock(&spin);
    ucs_mpool_put(address);
    pthread_spin_unlock(&spin);
  }
};
struct UcsMutexWay {
  static void* get() {
    pthread_mutex_lock(&mutex);
    void* const address = ucs_mpool_get(&ucs_pool);
    pthread_mutex_unlock(&mutex);
    return address;
  }
  static void put(void* address) {
    pthread_mutex_lock(&mutex);
    ucs_mpool_put(address);
    pthread_mutex_unlock(&mutex);
  }
};
#endif

// What a thread hands to the other: the buffers of one burst, or nothing.
struct alignas(64) Handover {
  std::atomic<bool> full{false};
  void* buffers[kMostOut];
};
Handover handovers[kMostThreads];

// Gets and puts some buffers, as many of each; returns the number of pairs.
template <typename Way>
uint64_t work(Pattern pattern, size_t self, size_t threads) {
  void* held[kMostOut];
  if (pattern == Pattern::kPairs) {
    for (size_t i = 0; i < kMostOut; ++i) Way::put(Way::get());
    return kMostOut;
  }
  constexpr size_t kBurst = 32;
  for (size_t i = 0; i < kBurst; ++i) held[i] = Way::get();
  // Hands over to the next thread, unless that has not yet taken the last burst.
  Handover& mine = handovers[self];
  Handover& next = handovers[(self + 1) % threads];
  if (pattern == Pattern::kBursts || next.full.load(std::memory_order_acquire)) {
    for (size_t i = kBurst; i-- > 0;) Way::put(held[i]);
  } else {
    for (size_t i = 0; i < kBurst; ++i) next.buffers[i] = held[i];
    next.full.store(true, std::memory_order_release);
  }
  if (pattern == Pattern::kExchange && mine.full.load(std::memory_order_acquire)) {
    for (size_t i = 0; i < kBurst; ++i) Way::put(mine.buffers[i]);
    mine.full.store(false, std::memory_order_release);
  }
  return kBurst;
}

template <typename Way>
void take_back() {
  for (Handover& one : handovers) {
    if (!one.full) continue;
    for (size_t i = 0; i < 32; ++i) Way::put(one.buffers[i]);
    one.full = false;
  }
}

// CPU time of a get and a put in one thread; bench/lookup/race.h says why, and explains the tries.
template <typename Way>
Slice race_once(Pattern pattern, size_t threads, uint64_t slice_ns) {
  std::vector<Slice> slices(threads);
  std::barrier start(static_cast<ptrdiff_t>(threads));
  const auto run = [&](size_t self) {
    bind_to_a_processor(self);
    (void)work<Way>(pattern == Pattern::kExchange ? Pattern::kBursts : pattern, self, threads);
    start.arrive_and_wait();
    const uint64_t started = now_ns(CLOCK_MONOTONIC);
    const uint64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t pairs = 0;
    uint64_t wall = 0;
    for (; wall < slice_ns; wall = now_ns(CLOCK_MONOTONIC) - started) {
      for (int i = 0; i < 16; ++i) pairs += work<Way>(pattern, self, threads);
    }
    const uint64_t spent = now_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    slices[self] = {static_cast<double>(spent) / static_cast<double>(pairs), spent > wall / 10 * 9};
  };
  std::vector<std::thread> others;
  for (size_t i = 0; i < threads; ++i) others.emplace_back(run, i);
  for (std::thread& other : others) other.join();
  take_back<Way>();
  Slice mean;
  for (const Slice& slice : slices) {
    mean.ns += slice.ns / static_cast<double>(threads);
    mean.undisturbed = mean.undisturbed && slice.undisturbed;
  }
  return mean;
}

template <typename Way>
Slice race_ways(Pattern pattern, size_t threads) {
  constexpr int kTries = 4;
  const uint64_t slice_ns = is_short_form() ? 200'000 : 4'000'000;
  Slice slice;
  for (int i = 0; i < kTries && (i == 0 || !slice.undisturbed); ++i) {
    slice = race_once<Way>(pattern, threads, slice_ns);
  }
  return slice;
}

Slice slice_of(Pattern pattern, size_t threads, Subject subject) {
  switch (subject) {
    case kPool:
      return race_ways<PoolWay>(pattern, threads);
    case kMalloc:
      return race_ways<MallocWay>(pattern, threads);
    case kMallocLookup:
      return race_ways<MallocLookupWay>(pattern, threads);
#if BENCH_HAS_UCX
    case kUcs:
      return race_ways<UcsWay>(pattern, threads);
    case kUcsSpin:
      return race_ways<UcsSpinWay>(pattern, threads);
    case kUcsMutex:
      return race_ways<UcsMutexWay>(pattern, threads);
#endif
    default:
      return {};
  }
}

struct Case {
  Pattern pattern;
  size_t threads;
  std::vector<Subject> subjects = {};
  Contest contest = {};
};

// A list, because Google Benchmark keeps references.
std::list<Case> cases;

const char* name(Pattern pattern) {
  switch (pattern) {
    case Pattern::kPairs:
      return "pairs";
    case Pattern::kBursts:
      return "bursts";
    default:
      return "exchange";
  }
}

std::vector<Subject> subjects_for(size_t threads) {
  std::vector<Subject> all = {kPool, kMalloc, kMallocLookup};
  if (BENCH_HAS_UCX && threads == 1) all.push_back(kUcs);
  if (BENCH_HAS_UCX) all.insert(all.end(), {kUcsSpin, kUcsMutex});
  return all;
}

void add_case(Pattern pattern, size_t threads) {
  Case& added = cases.emplace_back(Case{pattern, threads});
  added.subjects = subjects_for(threads);
  added.contest.name = std::string("pool/") + name(pattern) + "/threads:" + std::to_string(threads);
  for (const Subject subject : added.subjects) added.contest.sides.push_back(kNames[subject]);
  added.contest.rounds = rounds(31);
  added.contest.slice = [&added](size_t side) {
    return slice_of(added.pattern, added.threads, added.subjects[side]);
  };
  add(added.contest, kPool);
}

void print_table() {
  printf("\nCPU ns of a get and a put, per thread; and rdm_pool's of it\n%-10s %7s", "", "threads");
  for (const char* one : kNames) printf(" %15s      ", one);
  printf(" disturbed\n");
  for (const Case& what : cases) {
    const Contest& contest = what.contest;
    if (contest.measured.empty()) continue;
    printf("%-10s %7zu", name(what.pattern), what.threads);
    size_t side = 0;
    for (size_t subject = 0; subject < kSubjects; ++subject) {
      if (side == what.subjects.size() || what.subjects[side] != subject) {
        printf(" %15s      ", "-");
        continue;
      }
      printf(" %15.1f %5.2f", contest.time(side), contest.ratio(0, side));
      ++side;
    }
    printf(" %zu of %zu\n", contest.disturbed(), contest.measured.size());
  }
}

bool set_up() {
  domain = open_free_domain();
  rdm_pool_options options{};
  options.size = sizeof options;
  options.buffer_bytes = kBytes;
  options.reserve = kBuffers;
  if (rdm_pool_create(const_cast<rdm_domain*>(domain), &options, &pool) != RDM_OK) {
    fprintf(stderr, "no pool: %s\n", rdm_last_error());
    return false;
  }
#if BENCH_HAS_UCX
  if (ucs_mpool_init(&ucs_pool, 0, kBytes, 0, 64, kBuffers, UINT_MAX, &ucs_ops, "bench") !=
      UCS_OK) {
    fprintf(stderr, "no ucs_mpool\n");
    return false;
  }
  ucs_mpool_grow(&ucs_pool, kBuffers);
#endif
  return pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (!can_lock(kLocked)) return kSkipped;
  if (!set_up()) return EXIT_FAILURE;
  for (size_t threads = 1; threads <= kMostThreads; ++threads) {
    add_case(Pattern::kPairs, threads);
    add_case(Pattern::kBursts, threads);
  }
  add_case(Pattern::kExchange, kMostThreads);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return EXIT_FAILURE;
  benchmark::RunSpecifiedBenchmarks();
  if (!BENCH_HAS_UCX) fprintf(stderr, "skipped: UCX: built without libucx-dev\n");
  print_table();
  if (is_short_form()) printf("short form: the figures above mean nothing\n");
  return EXIT_SUCCESS;
}
