// What the front caches of threads (engine/front_cache.h) know of an object, by the unit of 4 KiB
// in which it starts: its class, and whether it is in a cache, and so nobody's. They keep no
// smaller objects, so no two of theirs start in one unit, whatever the page size is. Zero: they do
// not know of one.
//
// A cache line has the entries of few objects: where threads worked on objects side by side, they
// took up to a half longer with entries of eight bytes, and nearly twice as long with one byte.
//
// Read and written inside malloc, by the owner of the object.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"
#include "allocator/pages/region.h"
#include "allocator/pages/two_ended_table.h"
#include "allocator/pages/window.h"

namespace rdmalloc {

class FrontTable {
 public:
  using Entry = uint64_t;
  static constexpr unsigned kUnitShift = 12;
  static constexpr Entry kCached = Entry{1} << 32;
  struct alignas(16) Slot {
    std::atomic<Entry> entry;
  };

  explicit constexpr FrontTable(const Window& window) : window_(window) {}
  FrontTable(const FrontTable&) = delete;
  FrontTable& operator=(const FrontTable&) = delete;

  // Reserves the table. Before there are threads.
  Status boot() {
    const Status reserved = table_.boot(bytes(), TwoEndedTable::Rest::kZero);
    slots_ = static_cast<Slot*>(table_.memory());
    return reserved;
  }

  // Makes the entries of a region writable before it is published. False: no memory.
  bool cover(const Region& region) REQUIRES(growth_lock) {
    return table_.cover(index_of(region.base) * sizeof(Slot),
                        (index_of(region.end() - 1) + 1) * sizeof(Slot));
  }
  // The program destroyed the region, and may still free what lies there: gives back memory that
  // tells of no object, for which it reads all of it. If one becomes known at the same moment, that
  // may be forgotten.
  void forget(const Region& region) REQUIRES(growth_lock) {
    os::drop_zeros(slots_ + index_of(region.base), slots_ + index_of(region.end() - 1) + 1);
  }
  // Nobody uses these addresses, or others for which is_unused(from, to) is true: memory that tells
  // of no others is given back.
  template <typename IsUnused>
  void forget(uintptr_t base, size_t length, IsUnused is_unused) REQUIRES(growth_lock) {
    give_back_entries(
        slots_ + index_of(base), slots_ + index_of(base + length), base, base + length,
        [&](uintptr_t slot) { return told_by(slot); }, is_unused);
  }
  // Of all objects that no cache has.
  void forget_all() { (void)os::discard(slots_, bytes()); }

  // By the distance from the window's base, in units.
  Slot* slots() const { return slots_; }
  size_t metadata_bytes() const { return table_.bytes(); }

 private:
  size_t index_of(uintptr_t address) const { return (address - window_.base()) >> kUnitShift; }
  uintptr_t told_by(uintptr_t slot) const {
    const auto unit = static_cast<size_t>(reinterpret_cast<Slot*>(slot) - slots_);
    return window_.base() + (unit << kUnitShift);
  }
  size_t bytes() const { return (window_.size() >> kUnitShift) * sizeof(Slot); }

  const Window& window_;
  Slot* slots_ = nullptr;
  TwoEndedTable table_;
};

}  // namespace rdmalloc
