// What a workload needs from the program around it: its arguments, and the clock for the measured
// part.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace rdmalloc::bench {

// CPU time of all threads of the process, and wall time, between start() and stop(). Allocators are
// compared by CPU time, because other programs on the machine affect it least.
class Meter {
 public:
  void start() {
    wall_ = now(CLOCK_MONOTONIC);
    cpu_ = now(CLOCK_PROCESS_CPUTIME_ID);
  }
  void stop() {
    cpu_ = now(CLOCK_PROCESS_CPUTIME_ID) - cpu_;
    wall_ = now(CLOCK_MONOTONIC) - wall_;
  }
  uint64_t cpu_ns() const { return cpu_; }
  uint64_t wall_ns() const { return wall_; }

 private:
  static uint64_t now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000000000U + static_cast<uint64_t>(time.tv_nsec);
  }

  uint64_t cpu_ = 0;
  uint64_t wall_ = 0;
};

struct Arguments {
  size_t bytes = 0;         // for workloads that take a size
  const char* kind = "";    // for workloads that take a page kind
  bool short_form = false;  // finish within milliseconds: the smoke test
  // Repetitions: `full`, or a small fraction of it in the short form.
  size_t repeat(size_t full) const { return short_form ? full / 50 + 1 : full; }
};

// A named workload; `run` calls start() and stop() once each.
struct Workload {
  const char* name;
  void (*run)(const Arguments& arguments, Meter& meter);
};

// The workloads of this program.
std::span<const Workload> workloads();

// Keeps the compiler from removing memory that nobody reads.
inline void keep(void* pointer) { asm volatile("" : : "r"(pointer) : "memory"); }

// Marsaglia's xorshift: the same numbers in every run, without library calls.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  size_t below(size_t bound) { return (next() >> 16) % bound; }
  size_t between(size_t low, size_t high) { return low + below(high - low + 1); }

 private:
  uint64_t state_;
};

void run_pairs(const Arguments& arguments, Meter& meter);
void run_churn(const Arguments& arguments, Meter& meter);
void run_medium(const Arguments& arguments, Meter& meter);
void run_growth(const Arguments& arguments, Meter& meter);
void run_containers(const Arguments& arguments, Meter& meter);
void run_trees(const Arguments& arguments, Meter& meter);
void run_lists(const Arguments& arguments, Meter& meter);
void run_threads(const Arguments& arguments, Meter& meter);
void run_exchange(const Arguments& arguments, Meter& meter);
void run_larson(const Arguments& arguments, Meter& meter);
void run_xmalloc(const Arguments& arguments, Meter& meter);
void run_cache_thrash(const Arguments& arguments, Meter& meter);
void run_cache_scratch(const Arguments& arguments, Meter& meter);
void run_sh6(const Arguments& arguments, Meter& meter);
void run_sh8(const Arguments& arguments, Meter& meter);
void run_mstress(const Arguments& arguments, Meter& meter);
void run_rptest(const Arguments& arguments, Meter& meter);
void run_large_touch(const Arguments& arguments, Meter& meter);
void run_large_memset(const Arguments& arguments, Meter& meter);
void run_large_calloc(const Arguments& arguments, Meter& meter);
void run_large_sparse(const Arguments& arguments, Meter& meter);
void run_large_growth(const Arguments& arguments, Meter& meter);
void run_growing_blocks(const Arguments& arguments, Meter& meter);
void run_block_pair(const Arguments& arguments, Meter& meter);
void run_block_set(const Arguments& arguments, Meter& meter);
void run_block_exchange(const Arguments& arguments, Meter& meter);
void run_stall(const Arguments& arguments, Meter& meter);
void run_domain(const Arguments& arguments, Meter& meter);
void run_huge(const Arguments& arguments, Meter& meter);
void run_acquire(const Arguments& arguments, Meter& meter);
void run_acquire_bare(const Arguments& arguments, Meter& meter);
void run_message(const Arguments& arguments, Meter& meter);
void run_register(const Arguments& arguments, Meter& meter);
void run_register_bare(const Arguments& arguments, Meter& meter);
void run_count(const Arguments& arguments, Meter& meter);
void run_fork(const Arguments& arguments, Meter& meter);
void run_unmap(const Arguments& arguments, Meter& meter);
void run_miss(const Arguments& arguments, Meter& meter);
void run_slow_device(const Arguments& arguments, Meter& meter);

// Adds a key to the result, for workloads that report more than their time.
void report(const char* key, uint64_t value);

// Prints what went wrong, and exits.
[[noreturn]] void fail(const char* what, const char* why);

}  // namespace rdmalloc::bench
