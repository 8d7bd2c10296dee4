// Checks a heap's parts against each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/heap.h"

namespace rdmalloc {

// True when free pages of the region may be in that depot.
inline bool is_place_of(PageStore& store, const Region& region, const Depot& depot) {
  if (&store.depots.of(region) == &depot) return true;
  for (int node = 0; region.by_touch && node < store.depots.nodes(); ++node) {
    if (&store.depots.of(region, node) == &depot) return true;
  }
  return false;
}

// True when depots, regions, blocks and sums agree with each other: linear.
inline bool validate(Heap& tested) EXCLUDES(growth_lock) {
  PageStore& store = tested.store();
  Locked grow(store.mutex());
  store.depots.lock_all();
  size_t held = 0;
  bool good = true;
  for (size_t i = 0; i < store.regions.size(); ++i) {
    const Region& region = store.regions[i];
    held += region.length - region.retired();
    if (region.is_empty()) continue;
    good = good && store.regions.find(reinterpret_cast<void*>(region.base)) == &region &&
           store.regions.find(reinterpret_cast<void*>(region.end() - 1)) == &region &&
           store.regions.find(reinterpret_cast<void*>(region.end())) != &region;
  }
  size_t free = 0;
  size_t spare = 0;
  const auto check = [&](const FreePages& pages, const Depot& depot) {
    good = good && pages.validate();
    pages.for_each([&](void* address, size_t size) {
      const Region* region = store.regions.find(address);
      good = good && region != nullptr && is_place_of(store, *region, depot) &&
             reinterpret_cast<uintptr_t>(address) + size <= region->end() &&
             !store.marks.is_retired(reinterpret_cast<uintptr_t>(address), size);
    });
    return pages.free_bytes();
  };
  store.depots.for_each([&](Depot& depot) REQUIRES(depot_lock) {
    free += check(depot.free(), depot);
    spare += check(depot.spare(), depot);
  });
  good = good && spare == store.live.spare();
  const size_t live = store.live.all();
  const size_t abandoned = store.live.abandoned();
  store.depots.unlock_all();
  return good && held == store.budget.charges().held() && held == free + spare + live + abandoned;
}

}  // namespace rdmalloc
