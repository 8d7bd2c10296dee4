#include "allocator/pages/books.h"

namespace rdmalloc {

size_t Books::raise_peak_live(size_t live) {
  if (live > peak_live_.load(std::memory_order_relaxed)) {
    peak_live_.store(live, std::memory_order_relaxed);
  }
  return peak_live_.load(std::memory_order_relaxed);
}

void Books::note_growth(size_t regions) {
  const size_t live = live_.all();
  (void)raise_peak_live(live);
  counters_.note_budget(budget_, regions);
  counters_.note_live(live);
  if (live >= shared_from_) share();
}

void Books::begin_phase(const char* name) {
  share();
  note_live();
  counters_.begin_phase(name);
}

void Books::note_registrations(uint64_t domains, uint64_t registered, uint64_t registered_pinned) {
  if (domains != 0) share();
  counters_.note_registrations(domains, registered, registered_pinned);
}

}  // namespace rdmalloc
