#include "allocator/pages/publisher.h"

#include "allocator/breakage.h"

namespace rdmalloc {

Status Publisher::attach(RegionObserver* observer) {
  Locked hold(store_.mutex());
  if (store_.observers.has(observer)) return Status::kOk;
  if (!store_.observers.has_room()) return Status::kNoMemory;
  const RegionTable& regions = store_.regions;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (RDM_BROKEN(first_region_is_not_replayed) && i == 0) continue;
    if (!regions[i].is_empty()) observer->on_acquire(regions[i]);
  }
  store_.observers.add(observer);
  store_.budget.shared().note_ahead();
  return Status::kOk;
}

bool Publisher::has_slot() const {
  return store_.regions.has_room() || slots_.peek() != RegionTable::kNoSlot;
}

Acquired Publisher::publish(const Region& region, size_t charged, const Request& request) {
  Region* const added = store_.regions.add(region, slots_.take());
  store_.budget.charges().charge(region.charged_as(), charged);
  held_[index(region.use)] += region.length;
  store_.observers.for_each([&](RegionObserver& observer)
                                REQUIRES(growth_lock) { observer.on_acquire(*added); });
  Acquired acquired{added, {}};
  const size_t taken = region.length < request.size ? 0 : request.size;
  if (taken != 0) {
    acquired.taken = Depot::hand_out(added, reinterpret_cast<void*>(region.base), taken);
  }
  store_.depots.add(added, taken);
  note_held();
  return acquired;
}

void Publisher::note_gathered(Region* region, size_t size) {
  note_lost(*region, size);
  if (!region->is_empty()) return;
  // Blocks that the program destroyed still wait for free().
  if (!store_.marks.is_changed(region->base, region->length)) forget_blocks(*region);
  withdraw(region);
}

void Publisher::note_destroyed(Region* region) {
  store_.regions.remove(*region);
  withdraw(region);
  note_held();
}

void Publisher::note_closed(Region* region) {
  note_lost(*region, region->length);
  region->set_retired(region->length);
  store_.regions.remove(*region);
  forget_blocks(*region);
  withdraw(region);
  store_.books.note_growth(slots_in_use());
}

void Publisher::withdraw(Region* region) {
  store_.observers.for_each([&](RegionObserver& observer)
                                REQUIRES(growth_lock) { observer.on_retire(*region); });
  slots_.add(*region);
}

void Publisher::forget_blocks(const Region& region) {
  if (region.use != RegionUse::kExtents) store_.blocks.forget(region.base, region.length);
}

void Publisher::note_held() {
  store_.books.note_growth(slots_in_use());
  store_.caches.set_held(held(RegionUse::kBlocks));
}

}  // namespace rdmalloc
