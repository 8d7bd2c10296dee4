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

Acquired Publisher::publish(const Region& region, size_t charged, const Request& request,
                            size_t kept) {
  store_.marks.add(region);
  Region* const added = store_.regions.add(region, slots_.take());
  store_.budget.charges().charge(region.charged_as(), charged);
  held_[index(region.use)] += region.length;
  store_.observers.for_each([&](RegionObserver& observer)
                                REQUIRES(growth_lock) { observer.on_acquire(*added); });
  Acquired acquired{added, {}, region.base};
  const size_t taken = region.length < request.size ? 0 : request.size;
  if (taken != 0) {
    acquired.taken = Depot::hand_out(added, pointer(region.base), taken);
  }
  store_.depots.add(added, taken, taken == 0 ? 0 : kept);
  note_held();
  return acquired;
}

void Publisher::note_gathered(Region* region, uintptr_t address, size_t size) {
  note_lost(*region, size);
  forget_objects(*region, address, size);
  if (region->is_empty()) withdraw(region);
}

void Publisher::note_given_up(Region* region, uintptr_t address, size_t size) {
  store_.budget.charges().release(region->charged_as(), size);
  note_gathered(region, address, size);
}

void Publisher::note_destroyed(Region* region) {
  store_.regions.remove(*region);
  store_.front_table.forget(*region);
  withdraw(region);
  note_held();
}

void Publisher::note_closed(Region* region) {
  note_lost(*region, region->length);
  region->set_retired(region->length);
  store_.regions.remove(*region);
  forget_objects(*region, region->base, region->length);
  withdraw(region);
  store_.books.note_growth(slots_in_use());
}

void Publisher::withdraw(Region* region) {
  store_.observers.for_each([&](RegionObserver& observer)
                                REQUIRES(growth_lock) { observer.on_retire(*region); });
  store_.marks.forget(*region);
  if (region->use != RegionUse::kExtents) {
    store_.blocks.drop_page_tables(
        *region, [&](uintptr_t address, size_t size)
                     REQUIRES(growth_lock) { return store_.marks.is_vacant(address, size); });
  }
  slots_.add(*region);
}

// What the program destroyed has words until it is freed.
void Publisher::forget_objects(const Region& region, uintptr_t address, size_t size) {
  const auto is_unused = [&](uintptr_t from, uintptr_t to) REQUIRES(growth_lock) {
    return from == to ||
           (store_.marks.first_kept(from, to) == to && !store_.marks.is_changed(from, to - from));
  };
  if (region.use != RegionUse::kExtents) store_.blocks.forget(address, size, is_unused);
  store_.front_table.forget(address, size, is_unused);
}

void Publisher::note_held() {
  store_.books.note_growth(slots_in_use());
  store_.caches.set_held(held(RegionUse::kBlocks));
}

}  // namespace rdmalloc
