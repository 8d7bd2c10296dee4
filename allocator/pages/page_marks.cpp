#include "allocator/pages/page_marks.h"

#include <initializer_list>

#include "allocator/breakage.h"

namespace rdmalloc {
namespace {

constexpr size_t kMostVacant = size_t{64} << 30;

}  // namespace

Status PageMarks::boot() {
  const Status reserved =
      table_.boot(PageBits::table_bytes(window_), TwoEndedTable::Rest::kUnreadable);
  if (!ok(reserved)) return reserved;
  size_t kind = 0;
  for (PageBits* const bits : {&kept_, &changed_, &seams_}) bits->boot(table_.memory(), kind++);
  return Status::kOk;
}

void PageMarks::add(const Region& region) {
  if (has_retired()) kept_.set(region.base, region.length);
}

void PageMarks::forget(const Region& region) {
  if (has_retired() && !RDM_BROKEN(retired_page_is_found)) kept_.forget(region.base, region.length);
  seams_.forget(region.base, region.length);
}

void PageMarks::announce(uintptr_t address, size_t size) {
  if (!has_retired()) {
    for (size_t i = 0; i < regions_.size(); ++i) {
      const Region& region = regions_[i];
      if (!region.is_empty()) kept_.set(region.base, region.length);
    }
    has_retired_.store(true, std::memory_order_release);
  }
  kept_.clear(address, size);
}

void PageMarks::retire(uintptr_t address, size_t size) {
  announce(address, size);
  if (RDM_BROKEN(retired_page_is_found)) recall(address, size);
  seams_.clear(address, size);
}

bool PageMarks::is_used_up(uintptr_t address, size_t size) const {
  return is_readable(address, size) && kept_.first_set(address, address + size) == address + size &&
         !is_changed(address, size);
}

bool PageMarks::is_vacant(uintptr_t address, size_t size) const {
  return size <= kMostVacant && is_readable(address, size) && regions_.is_vacant(address, size) &&
         !is_changed(address, size);
}

bool PageMarks::is_readable(uintptr_t address, size_t size) const {
  const bool is_inside =
      window_.contains(pointer(address)) && window_.contains(pointer(address + size - 1));
  return is_inside && table_.covers(kept_.begin_of(address), kept_.end_of(address + size));
}

void PageMarks::set_changed(uintptr_t address, size_t size, bool changed) {
  if (changed) {
    changed_.set(address, size);
  } else {
    changed_.clear(address, size);
  }
  changes_.fetch_add(1, std::memory_order_release);
}

uintptr_t PageMarks::first_hole(uintptr_t address, uintptr_t end) const {
  return first_retired(address, changed_.first_set(address, end));
}

uintptr_t PageMarks::first_whole(uintptr_t address, uintptr_t end) const {
  for (uintptr_t at = address; at < end;) {
    const uintptr_t kept = first_kept(at, end);
    at = changed_.first_clear(kept, end);
    if (at == kept) return at;
  }
  return end;
}

}  // namespace rdmalloc
