#include "regcache/foreign/monitor/userfaultfd_watched.h"

namespace rdmalloc {

void UserfaultfdWatched::note(uintptr_t base, size_t length) {
  const uintptr_t last = (base + length - 1) >> kGranuleShift;
  for (uintptr_t granule = base >> kGranuleShift; granule <= last; ++granule) {
    const size_t place = granule % kBits;
    ever_[place / 64].fetch_or(uint64_t{1} << place % 64, std::memory_order_seq_cst);
  }
}

bool UserfaultfdWatched::may_have_been(uintptr_t base, size_t length) const {
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (base + length - 1) >> kGranuleShift;
  if (length == 0 || last < first || last - first >= kBits) return length != 0;
  for (uintptr_t granule = first; granule <= last; ++granule) {
    const size_t place = granule % kBits;
    const uint64_t bits = ever_[place / 64].load(std::memory_order_seq_cst);
    if ((bits >> place % 64 & 1) != 0) return true;
  }
  return false;
}

}  // namespace rdmalloc
