// All regions of the process, and the array that answers which one an address belongs to.
//
// add(), note_hole() and remove() run inside malloc. find() and the walk take no lock and may run
// anywhere: a region is written in full before its index is published with release order. A region
// that lost all its pages is removed, and its slot is reused when every observer has let go of it;
// its addresses are not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/pages/region.h"
#include "allocator/pages/two_ended_table.h"
#include "allocator/pages/window.h"
#include "allocator/status.h"

namespace rdmalloc {

class RegionTable {
 public:
  static constexpr size_t kMaxRegions = UINT16_MAX - 1;
  // Of addresses, for lookups: where one has lost pages, these look at each page.
  static constexpr unsigned kStretchShift = 18;
  static_assert(kStretchShift < Window::kGranuleShift);

  explicit constexpr RegionTable(const Window& window) : window_(&window) {}

  // Maps the arrays for the window, lazily backed. Until then, and when it fails, the window must
  // be empty. Before there are threads.
  Status boot();
  // What boot() will map with map_table().
  size_t table_bytes() const;

  // The most regions that there can be.
  size_t capacity() const { return capacity_; }

  // Makes the arrays' entries for a region usable before it is published. False: no memory.
  bool cover(const Region& region) REQUIRES(growth_lock);

  // Writes a region into a slot that remove() freed, or behind all others. Null: no room.
  Region* add(const Region& region, size_t free_slot) REQUIRES(growth_lock);
  static constexpr size_t kNoSlot = SIZE_MAX;
  // There is room for one more region: ask before acquiring memory for it.
  bool has_room() const { return size() < capacity_; }

  // Part of a region lost its pages: lookups in its stretches, and in the one before them, from
  // where a range may reach into the hole, must look at each page from now on.
  void note_hole(uintptr_t address, size_t size) REQUIRES(growth_lock);

  // A region has lost all its pages: no address is in it any more.
  void remove(const Region& region) REQUIRES(growth_lock);

  // No region is in the granules that have some of the range. Linear in their number.
  bool is_vacant(uintptr_t address, size_t size) const REQUIRES(growth_lock);

  // The region that holds `pointer`, or null. Wait-free.
  Region* find(const void* pointer) const {
    if (!window_->contains(pointer)) return nullptr;
    const uint16_t slot = by_granule_[window_->granule_of(pointer)].load(std::memory_order_acquire);
    if (slot == 0) return nullptr;
    Region* region = &regions_[slot - 1];
    return region->contains(reinterpret_cast<uintptr_t>(pointer)) ? region : nullptr;
  }

  // Copies the region that holds `pointer`, or the n-th of those that are not empty, for callers
  // whom nothing keeps from seeing its slot reused meanwhile. False: there is none. Wait-free.
  bool copy(const void* pointer, Region* out) const;
  bool copy_nth(size_t n, Region* out) const;

  // For callers that keep their own table by region: by stretch of the window, the index + 1 of a
  // region that still has all its pages there and in the next stretch; 0 if there is none, or if
  // some were retired. Null before boot().
  const std::atomic<uint16_t>* whole_by_stretch() const { return whole_by_stretch_; }

  size_t size() const { return size_.load(std::memory_order_acquire); }
  Region& operator[](size_t index) const { return regions_[index]; }
  // How many regions are not empty.
  size_t count() const {
    size_t count = 0;
    for (size_t i = 0; i < size(); ++i) count += regions_[i].is_empty() ? 0 : 1;
    return count;
  }
  size_t metadata_bytes() const { return metadata_bytes_ + slots_.bytes() + whole_slots_.bytes(); }

 private:
  struct Stretches {
    size_t first;
    size_t end;
  };
  Stretches stretches_of(uintptr_t address, size_t size) const;
  void fill(Stretches stretches, uint16_t slot);

  const Window* const window_;
  Region* regions_ = nullptr;
  std::atomic<uint16_t>* by_granule_ = nullptr;  // index + 1; 0: none
  std::atomic<uint16_t>* whole_by_stretch_ = nullptr;
  TwoEndedTable slots_;        // by_granule_'s memory
  TwoEndedTable whole_slots_;  // of stretches
  size_t capacity_ = 0;        // each region starts in its own granule
  std::atomic<size_t> size_{0};
  size_t metadata_bytes_ = 0;
};

}  // namespace rdmalloc
