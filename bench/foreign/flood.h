// A million buffers, each requested once, while only a few may be registered at a time: every get
// gives up one registration and makes another. Compared with UCX's cache under the same limit, and
// with bare io_uring registration and deregistration. Every single get is timed, with its put.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/peers/ucx_cache.h"
#include "bench/workloads/ring.h"
#include "rdmalloc/rdmalloc.h"

namespace benchmark {
class State;
}

namespace rdmalloc::bench {

class Flood {
 public:
  static constexpr unsigned kLimit = 64;

  // Makes it one Google Benchmark, with counters mean, p99 and max for each side. Call before the
  // run.
  void add();
  void print() const;
  // Gets on our side, each of which must have been a registration.
  uint64_t gets() const { return gets_; }
  // False if there were ever more foreign registrations than the limits allow.
  bool kept_limits() const { return kept_limits_; }

 private:
  enum Side { kOursFree, kUcxFree, kOursRing, kBareRing, kSides };
  struct Figures {
    double mean, p99, p9999, max;
  };

  void open();
  void run(benchmark::State& state);
  // Records nanoseconds for each buffer.
  void ask_for_all(Side side, char* chunk, size_t buffers);
  void check_limits();
  Figures figures(Side side) const;
  bool has(Side side) const { return !times_[side].empty(); }

  rdm_domain* domains_[kSides] = {};
  Ring shared_ring_;  // a domain's ring
  Ring ring_;
#if BENCH_HAS_UCX
  std::unique_ptr<UcxCache> ucx_;
#endif
  std::vector<uint32_t> times_[kSides];
  uint64_t gets_ = 0;
  uint64_t regions_before_ = 0;
  uint64_t most_regions_ = 0;
  bool kept_limits_ = true;
};

}  // namespace rdmalloc::bench
