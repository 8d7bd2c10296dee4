// How many registrations there are, by their addresses, so that whoever changes memory learns with
// a few reads that nothing there is registered. Several addresses share a count, so the answer may
// be too cautious, never too bold. Any thread, also inside malloc; no lock. Constant-initialised.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"

namespace rdmalloc {

class RangeCounts {
 public:
  constexpr RangeCounts() = default;
  RangeCounts(const RangeCounts&) = delete;
  RangeCounts& operator=(const RangeCounts&) = delete;

  void count_in(uintptr_t base, uintptr_t end);
  void count_out(uintptr_t base, uintptr_t end);

  // False: nothing of the range is counted in. True: perhaps.
  bool may_have(uintptr_t base, uintptr_t end) const;

  // In the child of a fork.
  void clear();

 private:
  static constexpr size_t kGranuleShift = 16;
  static constexpr size_t kCounts = 1 << 16;
  // A longer range is counted in as a whole. Of one that is asked for, anything counted may be
  // part.
  static constexpr size_t kMostGranules = 4096;

  // Granules that follow each other share a cache line.
  static size_t place_of(uintptr_t granule) {
    constexpr int kNearBits = 5;
    const uint64_t hash = (uint64_t{granule} >> kNearBits) * 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(hash >> 48) ^ (granule & ((1 << kNearBits) - 1));
  }

  std::atomic<bool> has_counted_{false};  // some range was ever counted in
  std::atomic<uint32_t> long_ranges_{0};  // those of them with too many granules to count
  alignas(os::kCacheLine) std::atomic<uint16_t> counts_[kCounts] = {};
};

}  // namespace rdmalloc
