// Bounds what moving pages for blocks costs: no more CPU time than a share of all else that the
// process did, of which a second at most is saved up. A program that writes to what it mallocs
// takes far longer than that and never notices the bound; one that mallocs and frees blocks without
// touching them would move pages for most of its time.
//
// Runs inside malloc, under the growth lock; reads the process's CPU clock only when the time that
// was saved up is used up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "allocator/os/cpu_clock.h"

namespace rdmalloc {

class Patience {
 public:
  // One part in `share` of the time.
  explicit constexpr Patience(uint64_t share) : share_(share) {}

  // Moving took that long, of one thread's CPU time.
  void spend(uint64_t ns) {
    spent_ns_ += ns;
    left_ns_ -= static_cast<int64_t>(ns);
  }

  // True while nothing is left for moving.
  bool is_over() {
    if (left_ns_ >= 0) return false;
    const uint64_t elsewhere = (os::process_cpu_ns() - spent_ns_) / share_;
    const uint64_t missing = kMostSaved + static_cast<uint64_t>(-left_ns_);
    // Unsigned: where the clock began anew, in a child of fork, the difference is huge.
    left_ns_ += static_cast<int64_t>(std::min(elsewhere - elsewhere_ns_, missing));
    elsewhere_ns_ = elsewhere;
    return left_ns_ < 0;
  }

 private:
  // ns. One gathering takes several milliseconds, and several may come at once: then what the
  // process did long before counts.
  static constexpr int64_t kAtFirst = 10'000'000;
  static constexpr uint64_t kMostSaved = 1'000'000'000;

  uint64_t share_;
  int64_t left_ns_ = kAtFirst;
  uint64_t spent_ns_ = 0;
  uint64_t elsewhere_ns_ = 0;  // the share of all else, when it was last added
};

}  // namespace rdmalloc
