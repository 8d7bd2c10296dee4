#include "allocator/pages/heap_counters.h"

namespace rdmalloc {

size_t live_blocks(const PageStore& store) {
  const size_t taken = store.live.of(RegionUse::kBlocks) + store.live.of(RegionUse::kExposed);
  const size_t cached = store.caches.bytes();
  return taken < cached ? 0 : taken - cached;
}

HeapCounters heap_counters(Heap& target, size_t kept) {
  PageStore& store = target.store();
  const PageMover& mover = target.growth().mover();
  HeapCounters now;
  now.cached = store.caches.bytes();
  const size_t live = store.live.all();
  now.live = live > kept + now.cached ? live - kept - now.cached : 0;
  now.live_exposed = store.live.of(RegionUse::kExposed);
  now.live_blocks = live_blocks(store);
  now.gathered = mover.moved_bytes();
  now.retired = now.gathered + mover.given_up_bytes() + target.holes().lost_bytes();
  now.acquire_ns = store.books.acquire_ns();
  now.peak_held = store.books.peak_held();
  now.peak_live = store.books.raise_peak_live(now.live);
  now.metadata = store.regions.metadata_bytes() + store.marks.metadata_bytes() +
                 store.blocks.metadata_bytes() + store.front_table.metadata_bytes();
  now.regions = store.regions.count();
  store.depots.for_each([&](Depot& depot) {
    depot.lock();
    now.free_extents += depot.free().runs() + depot.spare().runs();
    now.metadata += depot.free().metadata_bytes() + depot.spare().metadata_bytes();
    if (depot.free().largest() > now.largest_free) now.largest_free = depot.free().largest();
    depot.unlock();
  });
  return now;
}

}  // namespace rdmalloc
