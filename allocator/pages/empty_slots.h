// The slots of regions that lost all their pages, the oldest first, for reuse.
//
// Runs inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/pages/observers.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

class EmptySlots {
 public:
  constexpr EmptySlots(const RegionTable& regions, const Observers& observers)
      : regions_(regions), observers_(observers) {}
  EmptySlots(const EmptySlots&) = delete;
  EmptySlots& operator=(const EmptySlots&) = delete;

  size_t count() const REQUIRES(growth_lock) { return emptied_ - reused_; }

  void add(const Region& region) REQUIRES(growth_lock) {
    if (count() < kMost) slots_[emptied_++ % kMost] = region.index;
  }

  // The oldest slot, if no observer keeps anything of its region; else RegionTable::kNoSlot.
  size_t peek() const REQUIRES(growth_lock) {
    if (count() == 0) return RegionTable::kNoSlot;
    const uint16_t slot = slots_[reused_ % kMost];
    const bool is_kept = observers_.any_of(
        [&](const RegionObserver& observer) { return !observer.has_let_go(regions_[slot]); });
    return is_kept ? RegionTable::kNoSlot : slot;
  }
  // The same, and the caller takes it.
  size_t take() REQUIRES(growth_lock) {
    const size_t slot = peek();
    if (slot != RegionTable::kNoSlot) ++reused_;
    return slot;
  }

 private:
  static constexpr size_t kMost = 1024;

  const RegionTable& regions_;
  const Observers& observers_;
  size_t emptied_ GUARDED_BY(growth_lock) = 0;  // ever
  size_t reused_ GUARDED_BY(growth_lock) = 0;   // of these
  uint16_t slots_[kMost] GUARDED_BY(growth_lock) = {};
};

}  // namespace rdmalloc
