#include "allocator/pages/books.h"

namespace rdmalloc {

size_t Books::raise_peak_live(size_t live) {
  if (live > peak_live_.load(std::memory_order_relaxed)) {
    peak_live_.store(live, std::memory_order_relaxed);
  }
  return peak_live_.load(std::memory_order_relaxed);
}

void Books::note_growth(size_t regions) {
  const size_t live = depots_.live();
  (void)raise_peak_live(live);
  counters_.note_budget(budget_, regions);
  counters_.note_live(live);
  if (live >= shared_from_) share();
}

}  // namespace rdmalloc
