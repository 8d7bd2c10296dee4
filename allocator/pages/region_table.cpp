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
  const size_t whole_bytes = (window_->size() >> kStretchShift) * sizeof *whole_by_stretch_;
  if (!ok(slots_.boot(bytes, TwoEndedTable::Rest::kZero)) ||
      !ok(whole_slots_.boot(whole_bytes, TwoEndedTable::Rest::kZero))) {
    return Status::kNoMemory;
  }
  by_granule_ = static_cast<std::atomic<uint16_t>*>(slots_.memory());
  whole_by_stretch_ = static_cast<std::atomic<uint16_t>*>(whole_slots_.memory());
  capacity_ = most_regions(*window_);
  return Status::kOk;
}

RegionTable::Stretches RegionTable::stretches_of(uintptr_t address, size_t size) const {
  const uintptr_t from = address - window_->base();
  return {from >> kStretchShift, ((from + size - 1) >> kStretchShift) + 1};
}

bool RegionTable::cover(const Region& region) {
  const size_t first = window_->granule_of(pointer(region.base));
  const size_t last = window_->granule_of(pointer(region.end() - 1));
  const Stretches whole = stretches_of(region.base, region.length);
  return slots_.cover(first * sizeof *by_granule_, (last + 1) * sizeof *by_granule_) &&
         whole_slots_.cover(whole.first * sizeof *whole_by_stretch_,
                            whole.end * sizeof *whole_by_stretch_);
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
  }
  fill(stretches_of(region.base, region.length), static_cast<uint16_t>(index + 1));
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

void RegionTable::fill(Stretches stretches, uint16_t slot) {
  for (size_t i = stretches.first; i < stretches.end; ++i) {
    whole_by_stretch_[i].store(slot, std::memory_order_release);
  }
}

void RegionTable::note_hole(uintptr_t address, size_t size) {
  Stretches stretches = stretches_of(address, size);
  const Region& region = *find(pointer(address));
  if (stretches.first > stretches_of(region.base, 1).first) --stretches.first;
  fill(stretches, 0);
}

void RegionTable::remove(const Region& region) {
  const Stretches whole = stretches_of(region.base, region.length);
  fill(whole, 0);
  const size_t first = window_->granule_of(pointer(region.base));
  const size_t last = window_->granule_of(pointer(region.end() - 1));
  for (size_t g = first; g <= last; ++g) by_granule_[g].store(0, std::memory_order_release);
  os::drop_zeros(&by_granule_[first], &by_granule_[last + 1]);
  os::drop_zeros(&whole_by_stretch_[whole.first], &whole_by_stretch_[whole.end]);
}

}  // namespace rdmalloc
