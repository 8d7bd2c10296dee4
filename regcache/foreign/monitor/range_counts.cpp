#include "regcache/foreign/monitor/range_counts.h"

#include <algorithm>
#include <iterator>

namespace rdmalloc {

void RangeCounts::count_in(uintptr_t base, uintptr_t end) {
  if (!has_counted_.load(std::memory_order_acquire)) has_counted_ = true;
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (end - 1) >> kGranuleShift;
  if (last - first >= kMostGranules) {
    long_ranges_.fetch_add(1, std::memory_order_seq_cst);
  } else {
    for (uintptr_t granule = first; granule <= last; ++granule) {
      counts_[place_of(granule)].fetch_add(1, std::memory_order_seq_cst);
    }
  }
}

void RangeCounts::count_out(uintptr_t base, uintptr_t end) {
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (end - 1) >> kGranuleShift;
  if (last - first >= kMostGranules) {
    long_ranges_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  for (uintptr_t granule = first; granule <= last; ++granule) {
    counts_[place_of(granule)].fetch_sub(1, std::memory_order_relaxed);
  }
}

bool RangeCounts::may_have(uintptr_t base, uintptr_t end) const {
  if (!has_counted_.load(std::memory_order_seq_cst)) return false;
  if (long_ranges_.load(std::memory_order_seq_cst) != 0) return true;
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (end - 1) >> kGranuleShift;
  const auto is_counted = [](const std::atomic<uint16_t>& count) {
    return count.load(std::memory_order_seq_cst) != 0;
  };
  if (last - first >= kMostGranules) return std::any_of(counts_, std::end(counts_), is_counted);
  for (uintptr_t granule = first; granule <= last; ++granule) {
    if (is_counted(counts_[place_of(granule)])) return true;
  }
  return false;
}

void RangeCounts::clear() {
  has_counted_ = false;
  long_ranges_ = 0;
  for (std::atomic<uint16_t>& count : counts_) {
    if (count.load(std::memory_order_relaxed) != 0) count = 0;
  }
}

}  // namespace rdmalloc
