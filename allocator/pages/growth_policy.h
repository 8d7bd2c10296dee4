// How much is acquired at a time, and when gathering pays.
//
// Runs inside malloc: some arithmetic, and reads of sums that others may be changing.
#pragma once

#include <atomic>
#include <cstddef>

#include "allocator/limits/budget.h"
#include "allocator/mutex.h"
#include "allocator/pages/depots.h"
#include "allocator/pages/patience.h"
#include "allocator/pages/window.h"

namespace rdmalloc {

class GrowthPolicy {
 public:
  constexpr GrowthPolicy(const Window& window, const Budget& budget, const Depots& depots)
      : window_(window), budget_(budget), depots_(depots) {}
  GrowthPolicy(const GrowthPolicy&) = delete;
  GrowthPolicy& operator=(const GrowthPolicy&) = delete;

  // `is_forced`: gathering is to happen at every growth; for tests.
  void boot(bool is_forced) { is_forced_ = is_forced; }

  // A region of that use got pages, or lost some.
  void note_got(RegionUse use, size_t bytes) REQUIRES(growth_lock) {
    held_[static_cast<size_t>(use)] += bytes;
  }
  void note_lost(RegionUse use, size_t bytes) REQUIRES(growth_lock) {
    held_[static_cast<size_t>(use)] -= bytes;
  }

  // Bytes in regions of that use.
  size_t held(RegionUse use) const REQUIRES(growth_lock) { return held_[static_cast<size_t>(use)]; }

  // What would be acquired for a request: a step, or its own size.
  size_t amount(const Request& request) const REQUIRES(growth_lock);
  // What would be gathered for it, at most, where `step` would be acquired.
  size_t amount_to_gather(const Request& request, size_t step) const;

  // True while so little is free, including `cached`, that growing is better for a request of this
  // size than moving pages and emptying caches.
  bool is_tight(size_t size, size_t cached) const;

  // True when more is idle than keeping pages apart by node may cost: for a request of this size,
  // pages of other nodes are better than acquiring more of its own.
  bool is_ample(size_t size) const;
  // The heap grew.
  void note_live() REQUIRES(growth_lock);
  // `bytes` of free pages were moved for a request.
  void note_gathered(const Request& request, size_t bytes) REQUIRES(growth_lock);
  // Gathering took that much CPU time, whatever came of it.
  void note_gathering(uint64_t ns) REQUIRES(growth_lock) { patience_.spend(ns); }

  // True when pages may be moved for this request, gathering `target` bytes, in a heap of that many
  // regions.
  bool may_gather(const Request& request, size_t target, size_t regions) REQUIRES(growth_lock);
  // True when gathering `missing` of the `free` bytes is worth it.
  bool is_worth_gathering(size_t missing, size_t free) const REQUIRES(growth_lock);
  // True while so much is idle that even pages that nobody touched are moved instead of acquiring
  // more.
  bool may_move_untouched() const;
  // True when what was gathered is enough to continue.
  bool is_enough(size_t gathered) const;
  // True when a block may have its own region.
  static bool may_move_block(size_t regions);

 private:
  size_t step(RegionUse use) const REQUIRES(growth_lock);
  bool is_restless(const Request& request) REQUIRES(growth_lock);
  static size_t judged_size(const Request& request, size_t step);

  const Window& window_;
  const Budget& budget_;
  const Depots& depots_;
  bool is_forced_ = false;
  Patience patience_ GUARDED_BY(growth_lock);
  size_t gathered_ GUARDED_BY(growth_lock) = 0;            // bytes, for all but the largest
  std::atomic<size_t> peak_live_{0};                       // bytes; taken when the heap grows
  size_t held_[kRegionUses] GUARDED_BY(growth_lock) = {};  // bytes in regions, by use
};

}  // namespace rdmalloc
