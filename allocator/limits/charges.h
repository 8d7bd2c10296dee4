// What the heap holds now, by kind: the sums that the limits are compared with.
//
// Changed inside malloc, under the growth lock, whenever a region gets or loses pages; anybody may
// read.
#pragma once

#include <atomic>
#include <cstddef>

#include "allocator/mutex.h"
#include "allocator/pages/region.h"

namespace rdmalloc {

class Charges {
 public:
  constexpr Charges() = default;
  Charges(const Charges&) = delete;
  Charges& operator=(const Charges&) = delete;

  void charge(RegionKind kind, size_t bytes) REQUIRES(growth_lock);

  // Memory that was charged is no longer held.
  void release(RegionKind kind, size_t bytes) REQUIRES(growth_lock);

  // Memory that was pinned is still held, but no longer pinned.
  void note_unlocked(size_t bytes) REQUIRES(growth_lock);

  // In a child of fork: locks are not inherited, the memory is.
  void note_fork_child() REQUIRES(growth_lock);

  size_t held() const { return held_.load(std::memory_order_relaxed); }
  size_t pinned() const { return pinned_.load(std::memory_order_relaxed); }
  size_t overflow() const { return overflow_.load(std::memory_order_relaxed); }
  size_t sparse() const { return sparse_.load(std::memory_order_relaxed); }
  size_t peak_pinned() const { return peak_pinned_.load(std::memory_order_relaxed); }

 private:
  std::atomic<size_t>& of(RegionKind kind);

  std::atomic<size_t> held_{0};
  std::atomic<size_t> pinned_{0};
  std::atomic<size_t> overflow_{0};
  std::atomic<size_t> sparse_{0};
  std::atomic<size_t> peak_pinned_{0};
};

}  // namespace rdmalloc
