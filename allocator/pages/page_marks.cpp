#include "allocator/pages/page_marks.h"

#include "allocator/breakage.h"

namespace rdmalloc {

size_t PageMarks::table_bytes() const {
  return 3 * PageBits::words(window_) * sizeof(PageBits::Word);
}

Status PageMarks::boot() {
  auto* const memory = static_cast<PageBits::Word*>(os::map_table(table_bytes()));
  if (memory == nullptr) return Status::kNoMemory;
  const size_t words = PageBits::words(window_);
  retired_.boot(memory);
  seams_.boot(memory + words);
  changed_.boot(memory + 2 * words);
  return Status::kOk;
}

void PageMarks::retire(uintptr_t address, size_t size) {
  if (RDM_BROKEN(retired_page_is_found)) {
    retired_.clear(address, size);
  } else {
    retired_.set(address, size);
  }
  seams_.clear(address, size);
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
