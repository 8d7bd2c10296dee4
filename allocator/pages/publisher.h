// Publishes regions, and withdraws those that have lost all their pages. Whoever keeps books of
// regions hears of it from here: the table, the budget, the depots, the observers, the counters.
//
// Runs inside malloc, under the growth lock; attach() outside, and takes it.
#pragma once

#include <cstddef>

#include "allocator/pages/empty_slots.h"
#include "allocator/pages/page_store.h"

namespace rdmalloc {

// A new region, and the part of it that was taken for a request.
struct Acquired {
  Region* region = nullptr;
  Taken taken;
  uintptr_t new_from = 0;  // where new pages begin that the program is about to touch
};

class Publisher {
 public:
  explicit constexpr Publisher(PageStore& store)
      : store_(store), slots_(store.regions, store.observers) {}
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  // Tells the observer of every existing region, and from then on of every new one. Does nothing if
  // it is attached already.
  Status attach(RegionObserver* observer) EXCLUDES(growth_lock);

  // False: no more regions can be published.
  bool has_slot() const REQUIRES(growth_lock);
  // How many slots of the table are in use.
  size_t slots_in_use() const REQUIRES(growth_lock) {
    return store_.regions.size() - slots_.count();
  }

  // Publishes a region and takes the request's part of it first: taking needs no growth lock, so
  // other threads could use the region up at once. `charged`: bytes that are new to the budget.
  // `kept`: bytes behind the request's part that wait for that to grow.
  Acquired publish(const Region& region, size_t charged, const Request& request, size_t kept = 0)
      REQUIRES(growth_lock);

  // Bytes in regions of that use.
  size_t held(RegionUse use) const REQUIRES(growth_lock) { return held_[index(use)]; }

  // A region lost pages, or got some back.
  void note_lost(const Region& region, size_t size) REQUIRES(growth_lock) {
    held_[index(region.use)] -= size;
  }
  void note_regained(const Region& region, size_t size) REQUIRES(growth_lock) {
    held_[index(region.use)] += size;
  }
  // Gathering took free pages of a region, which is withdrawn if they were its last.
  void note_gathered(Region* region, uintptr_t address, size_t size) REQUIRES(growth_lock);
  // The same for pages that were given to the kernel: they are no longer charged.
  void note_given_up(Region* region, uintptr_t address, size_t size) REQUIRES(growth_lock);
  // The program's own system calls took all that were left. Its blocks still belong to the program,
  // which will free them.
  void note_destroyed(Region* region) REQUIRES(growth_lock);
  // A sparse region was given back to the kernel.
  void note_closed(Region* region) REQUIRES(growth_lock);

 private:
  static size_t index(RegionUse use) { return static_cast<size_t>(use); }
  void withdraw(Region* region) REQUIRES(growth_lock);
  void forget_objects(const Region& region, uintptr_t address, size_t size) REQUIRES(growth_lock);
  void note_held() REQUIRES(growth_lock);

  PageStore& store_;
  size_t held_[kRegionUses] GUARDED_BY(growth_lock) = {};
  EmptySlots slots_;
};

}  // namespace rdmalloc
