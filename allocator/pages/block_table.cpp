#include "allocator/pages/block_table.h"

namespace rdmalloc {

Status BlockTable::boot() {
  const Status reserved = table_.boot(window_.size() / os::page_size() * sizeof(Word),
                                      TwoEndedTable::Rest::kUnreadable);
  words_ = static_cast<std::atomic<Word>*>(table_.memory());
  return reserved;
}

// Blocks lie at the high end of the window.
bool BlockTable::cover(const Region& region) {
  if (region.use == RegionUse::kExtents) return true;
  const size_t first = page_of(region.base) * sizeof(Word);
  if (!table_.cover(first, window_.size() / os::page_size() * sizeof(Word))) return false;
  if (region.base < lowest_.load(std::memory_order_relaxed)) {
    lowest_.store(region.base, std::memory_order_release);
  }
  return true;
}

}  // namespace rdmalloc
