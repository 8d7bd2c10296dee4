// All regions of the process, and the array that answers which one an address belongs to.
//
// add() runs inside malloc under the growth lock. find() and the walk take no lock and may run
// anywhere: a region is written in full before its index is published with release order, and
// neither is ever taken back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/region.h"
#include "allocator/status.h"
#include "allocator/window.h"

namespace rdmalloc {

class RegionTable {
 public:
  static constexpr size_t kMaxRegions = UINT16_MAX - 1;

  explicit constexpr RegionTable(const Window& window) : window_(&window) {}

  // Maps the arrays for the window, lazily backed. Until then, and when it fails, the window must
  // be empty.
  Status boot();

  // Most regions that there can be.
  size_t capacity() const { return capacity_; }

  // The arrays have room for one more region: ask before acquiring memory for it.
  bool has_room() const { return size() < capacity_; }

  Region* add(const Region& region);

  // The region that holds `pointer`, or null. Wait-free.
  Region* find(const void* pointer) const {
    if (!window_->contains(pointer)) return nullptr;
    const uint16_t slot = by_granule_[window_->granule_of(pointer)].load(std::memory_order_acquire);
    if (slot == 0) return nullptr;
    Region* region = &regions_[slot - 1];
    return reinterpret_cast<uintptr_t>(pointer) < region->end() ? region : nullptr;
  }

  // The array itself, for who keeps a table by region beside it: by granule of the window, the
  // region's index + 1, and 0 for none. Null before boot().
  const std::atomic<uint16_t>* by_granule() const { return by_granule_; }

  size_t size() const { return size_.load(std::memory_order_acquire); }
  Region& operator[](size_t index) const { return regions_[index]; }
  size_t metadata_bytes() const { return metadata_bytes_; }

 private:
  const Window* const window_;
  Region* regions_ = nullptr;
  std::atomic<uint16_t>* by_granule_ = nullptr;  // index + 1; 0: none
  size_t capacity_ = 0;                          // each region starts a granule of its own
  std::atomic<size_t> size_{0};
  size_t metadata_bytes_ = 0;
};

}  // namespace rdmalloc
