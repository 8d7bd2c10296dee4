#include "allocator/pages/region_table.h"

#include <algorithm>

#include "allocator/os/memory.h"

namespace rdmalloc {

namespace {

size_t most_regions(const Window& window) {
  return window.granules() < RegionTable::kMaxRegions ? window.granules()
                                                      : RegionTable::kMaxRegions;
}

}  // namespace

size_t RegionTable::table_bytes() const {
  return os::page_ceil(most_regions(*window_) * sizeof(Region));
}

Status RegionTable::boot() {
  regions_ = static_cast<Region*>(os::map_table(table_bytes()));
  if (regions_ == nullptr) return Status::kNoMemory;
  metadata_bytes_ = table_bytes();
  // All of the window may be asked about.
  const size_t bytes = window_->granules() * sizeof *by_granule_;
  if (!ok(slots_.boot(bytes, TwoEndedTable::Rest::kZero)) ||
      !ok(whole_slots_.boot(bytes, TwoEndedTable::Rest::kZero))) {
    return Status::kNoMemory;
  }
  by_granule_ = static_cast<std::atomic<uint16_t>*>(slots_.memory());
  whole_by_granule_ = static_cast<std::atomic<uint16_t>*>(whole_slots_.memory());
  capacity_ = most_regions(*window_);
  return Status::kOk;
}

bool RegionTable::cover(const Region& region) {
  const size_t first = window_->granule_of(pointer(region.base));
  const size_t last = window_->granule_of(pointer(region.end() - 1));
  const size_t from = first * sizeof *by_granule_;
  const size_t to = (last + 1) * sizeof *by_granule_;
  return slots_.cover(from, to) && whole_slots_.cover(from, to);
}

Region* RegionTable::add(const Region& region, size_t free_slot) {
  const bool is_new = free_slot == kNoSlot;
  const size_t index = is_new ? size() : free_slot;
  Region* slot = &regions_[index];
  if (is_new) slot->index = static_cast<uint16_t>(index);
  slot->replace(region);
  const auto* first = pointer(region.base);
  const auto* last = pointer(region.end() - 1);
  for (size_t g = window_->granule_of(first); g <= window_->granule_of(last); ++g) {
    by_granule_[g].store(static_cast<uint16_t>(index + 1), std::memory_order_release);
    whole_by_granule_[g].store(static_cast<uint16_t>(index + 1), std::memory_order_release);
  }
  if (is_new) size_.store(index + 1, std::memory_order_release);
  return slot;
}

bool RegionTable::is_vacant(uintptr_t address, size_t size) const {
  const size_t first = window_->granule_of(pointer(address));
  const size_t last = window_->granule_of(pointer(address + size - 1));
  return std::all_of(&by_granule_[first], &by_granule_[last + 1],
                     [](const auto& slot) { return slot.load(std::memory_order_relaxed) == 0; });
}

// An address is in one region ever. So where the table names one slot for it before and after the
// copy, the slot had that region all the time.
bool RegionTable::copy(const void* pointer, Region* out) const {
  const Region* const region = find(pointer);
  if (region == nullptr) return false;
  copy_facts(out, *region);
  return find(pointer) == region;
}

bool RegionTable::copy_nth(size_t n, Region* out) const {
  for (size_t i = 0; i < size(); ++i) {
    const Region& region = regions_[i];
    if (region.is_empty()) continue;
    const auto* const base = pointer(__atomic_load_n(&region.base, __ATOMIC_RELAXED));
    if (find(base) != &region) continue;  // being withdrawn
    if (n != 0) {
      --n;
    } else if (copy(base, out)) {
      return true;
    }
  }
  return false;
}

void RegionTable::note_hole(uintptr_t address, size_t size) {
  size_t first = window_->granule_of(pointer(address));
  const auto slot = [this](size_t g) { return by_granule_[g].load(std::memory_order_relaxed); };
  if (first > 0 && slot(first - 1) == slot(first)) --first;
  const size_t last = window_->granule_of(pointer(address + size - 1));
  for (size_t g = first; g <= last; ++g) whole_by_granule_[g].store(0, std::memory_order_release);
}

void RegionTable::remove(const Region& region) {
  note_hole(region.base, region.length);
  const size_t first = window_->granule_of(pointer(region.base));
  const size_t last = window_->granule_of(pointer(region.end() - 1));
  for (size_t g = first; g <= last; ++g) by_granule_[g].store(0, std::memory_order_release);
  os::drop_zeros(&by_granule_[first], &by_granule_[last + 1]);
  os::drop_zeros(&whole_by_granule_[first], &whole_by_granule_[last + 1]);
}

}  // namespace rdmalloc
