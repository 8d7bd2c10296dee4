// Lookups in a large region that is not registered yet: they register the part that holds the
// buffer and leave the rest to the registrar.
#include <algorithm>

#include "allocator/os/thread.h"
#include "regcache/domain/domain.h"

namespace rdmalloc {

// A lookup in this region would have to wait for, or do, the registration of the whole region,
// although it needs little of it. Where regions are registered ahead of lookups, asks the registrar
// for this one.
bool Domain::is_still_to_come(const Region& region, size_t length) {
  if (region.length < EarlyParts::kLeastRegion || length > region.length / 2) return false;
  if (may_run_in_malloc() || callers_only_ || was_released_.load(std::memory_order_relaxed) ||
      !mrs_.takes(region) || device_.has(RDM_BACKEND_ONCE)) {
    return false;
  }
  KeyEntry& entry = entry_of(region);
  const uint32_t state = entry.state.load(std::memory_order_acquire);
  if (state == kRegistered || state == kRefused || entry.was_refused()) return false;
  if (!registers_when_asked()) ask_for_rest(entry);
  return true;
}

// Asks the registrar to register the region, unless a thread is already doing so.
void Domain::ask_for_rest(KeyEntry& entry) {
  uint32_t state = kUnregistered;
  if (entry.state.load(std::memory_order_relaxed) == kUnregistered &&
      entry.state.compare_exchange_strong(state, kAsked, std::memory_order_acq_rel)) {
    retries_->note_work();
  }
}

// Where regions are registered when they are asked for, a part that answers a second lookup has
// saved its program a registration, which pays for the region's own: the program never makes more
// registrations than it asks for. Before there is no room for parts, when a lookup would have to
// wait for all of a region, the registrar is asked for the region anyhow.
bool Domain::find_early(const Region& region, const void* address, size_t length, rdm_mr* out) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  EarlyParts::Part part;
  const bool is_there = early_.find(at, length, &part);
  if (!is_there && (!register_early(region, at, length) || !early_.find(at, length, &part))) {
    return false;
  }
  if (is_there || early_.is_half_full()) ask_for_rest(entry_of(region));
  fill(reinterpret_cast<void*>(part.base), part.length, part.key, out);
  return true;
}

// Registers whole units, so that later lookups nearby hit them; if the units have holes, only the
// pages of the buffer. False for any other obstacle: the lookup then waits for the region.
bool Domain::register_early(const Region& region, uintptr_t address, size_t length) {
  if (!early_.has_room()) return false;
  const PageMarks* const marks = source_->marks();
  const size_t offset = address - region.base;
  size_t from = 0;
  size_t to = 0;
  bool has_all = false;
  for (const size_t unit : {std::max(EarlyParts::kUnit, limits().alignment), limits().alignment}) {
    from = os::align_down(offset, unit);
    to = std::min(os::align_up(offset + length, unit), mrs_.length_of(region));
    const bool fits = to >= offset + length && to - from <= limits().max_length;
    has_all = fits && (marks == nullptr || !marks->has_hole(region.base + from, to - from));
    if (has_all) break;
  }
  if (!has_all) return false;
  os::NoCancel no_cancel;
  if (mrs_.fills(region) && !source_->populate_part(region, region.base + from, region.base + to)) {
    return false;
  }
  EarlyParts::Part part{region.base + from, to - from, {}};
  char why[Complaints::kLongest] = {};
  if (mrs_.register_range(region, from, part.length, &part.key, why, sizeof why) != RDM_OK)
    return false;
  if (early_.add(region.index, part)) return true;
  (void)mrs_.deregister_piece(region, {0, part.length, part.key}, false);
  return false;
}

// The calling thread has claimed the region. False: the backend asks to come later.
bool Domain::let_go_of_early(const Region& region) {
  for (EarlyParts::Part part; early_.take_of(region.index, &part);) {
    if (mrs_.deregister_piece(region, {0, part.length, part.key}, true) != RDM_BACKEND_LATER)
      continue;
    (void)early_.add(region.index, part);  // there is room: it was just removed
    return false;
  }
  return true;
}

}  // namespace rdmalloc
