#include "allocator/region_table.h"

#include "allocator/os/memory.h"

namespace rdmalloc {

Status RegionTable::boot() {
  const size_t index_bytes = window_->granules() * sizeof *by_granule_;
  capacity_ = window_->granules() < kMaxRegions ? window_->granules() : kMaxRegions;
  const size_t region_bytes = capacity_ * sizeof(Region);
  auto* memory = static_cast<unsigned char*>(os::map_metadata(region_bytes + index_bytes));
  if (memory == nullptr) return Status::kNoMemory;
  regions_ = reinterpret_cast<Region*>(memory);
  by_granule_ = reinterpret_cast<std::atomic<uint16_t>*>(memory + region_bytes);
  metadata_bytes_ = region_bytes + index_bytes;
  return Status::kOk;
}

Region* RegionTable::add(const Region& region) {
  const size_t index = size();
  Region* slot = &regions_[index];
  *slot = region;
  slot->index = static_cast<uint16_t>(index);
  const auto* first = reinterpret_cast<const void*>(region.base);
  const auto* last = reinterpret_cast<const void*>(region.end() - 1);
  for (size_t g = window_->granule_of(first); g <= window_->granule_of(last); ++g) {
    by_granule_[g].store(static_cast<uint16_t>(index + 1), std::memory_order_release);
  }
  size_.store(index + 1, std::memory_order_release);
  return slot;
}

}  // namespace rdmalloc
