#include "allocator/pages/extents.h"

#include <string.h>

namespace rdmalloc {

Taken Extents::take(const Request& request) {
  if (const Taken taken = store_.depots.take(request, Depots::Where::kBest)) return taken;
  freed_.drain(false);
  if (const Taken taken = growth_.grow(request)) return taken;
  // No more memory may be held: the processors' caches are the last resort.
  freed_.drain(true);
  return growth_.grow(request);
}

void* Extents::allocate(void* new_addr, size_t size, size_t alignment, bool* zero) {
  const Taken taken =
      new_addr != nullptr
          ? store_.depots.take_at(new_addr, size)
          : take({size, alignment, RegionUse::kExtents, store_.placement.node_here()});
  if (!taken) return nullptr;
  store_.books.note_live();
  // jemalloc wants *zero obeyed here. It zeroes what it reuses itself, but not what we hand out.
  if (*zero) memset(new_addr != nullptr ? new_addr : taken.address, 0, taken.dirty);
  *zero = *zero || taken.dirty == 0;
  return taken.address;
}

bool Extents::must_grow(size_t size, size_t alignment) {
  return !store_.depots.has({size, alignment, RegionUse::kExtents, store_.placement.node_here()},
                            Depots::Where::kAnywhere);
}

bool Extents::release(void* address, size_t size) {
  const Region* region = store_.regions.find(address);
  // The region has no pages left: the program destroyed all of the extent that was in it.
  if (region == nullptr)
    return store_.window.contains(address) &&
           store_.marks.is_retired(reinterpret_cast<uintptr_t>(address), size);
  if (region->use != RegionUse::kExtents) return false;
  if (region->end() - reinterpret_cast<uintptr_t>(address) < size) return false;
  if (holes_.has(address, size)) return release_around(*region, address, size);
  if (!ok(store_.depots.give(*region, region->node, address, size))) return false;
  store_.books.note_live();
  return true;
}

// Releases the parts of an extent between holes. There may be no memory to record all of them.
bool Extents::release_around(const Region& region, void* address, size_t size) {
  const auto base = reinterpret_cast<uintptr_t>(address);
  holes_.reopen(base, size);
  store_.marks.for_each_whole(base, base + size, [&](uintptr_t from, uintptr_t to) {
    void* const whole = pointer(from);
    if (!ok(store_.depots.give(region, region.node, whole, to - from)))
      store_.live.abandon(region.use, to - from);
  });
  store_.books.note_live();
  return true;
}

}  // namespace rdmalloc
