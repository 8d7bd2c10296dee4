// How many bytes of the heap's pages are live: taken from a depot or by growing, and not given
// back. Blocks that a CPU cache keeps count as live, and so does what jemalloc's arenas keep. What
// waits behind a block for it to grow is not live, but spare.
//
// Runs inside malloc; anybody may read the sums.
#pragma once

#include <atomic>
#include <cstddef>

#include "allocator/pages/region.h"

namespace rdmalloc {

class LiveBytes {
 public:
  using Sum = std::atomic<size_t>;

  constexpr LiveBytes() = default;
  LiveBytes(const LiveBytes&) = delete;
  LiveBytes& operator=(const LiveBytes&) = delete;

  size_t of(RegionUse use) const { return live_[index(use)].load(std::memory_order_relaxed); }
  size_t all() const {
    return of(RegionUse::kExtents) + of(RegionUse::kBlocks) + of(RegionUse::kExposed);
  }
  size_t spare() const { return spare_.load(std::memory_order_relaxed); }
  // Bytes that were ever given back.
  size_t given() const { return given_.load(std::memory_order_relaxed); }
  // Bytes of pages that are free, but will not be handed out again.
  size_t abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

  // For depots, which change it under their locks.
  Sum* sum(RegionUse use) { return &live_[index(use)]; }
  Sum* spare_sum() { return &spare_; }
  // Pages were given back to a depot, which has subtracted them from its sum.
  void note_given(size_t size) { given_.fetch_add(size, std::memory_order_relaxed); }

  // Pages are live that no depot had: new ones, or ones that are still there after all.
  void add(RegionUse use, size_t size) {
    live_[index(use)].fetch_add(size, std::memory_order_relaxed);
  }
  // Live pages are gone: they lie elsewhere and were counted again there, or are no longer held.
  void remove(RegionUse use, size_t size) {
    live_[index(use)].fetch_sub(size, std::memory_order_relaxed);
    note_given(size);
  }
  // Live pages will not be handed out again, but are still held.
  void abandon(RegionUse use, size_t size) {
    abandon_free(size);
    remove(use, size);
  }
  // The same for pages that were free.
  void abandon_free(size_t size) { abandoned_.fetch_add(size, std::memory_order_relaxed); }

 private:
  static size_t index(RegionUse use) { return static_cast<size_t>(use); }

  Sum live_[kRegionUses] = {};
  Sum spare_{0};
  std::atomic<size_t> given_{0};
  std::atomic<size_t> abandoned_{0};
};

}  // namespace rdmalloc
