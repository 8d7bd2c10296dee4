#include "regcache/domain/early_lookup.h"

#include <algorithm>

#include "allocator/os/thread.h"

namespace rdmalloc {
namespace {

// Asks the registrar to register the region, unless a thread is already doing so.
void ask_for_rest(const DomainParts& domain, KeyEntry& entry) {
  uint32_t state = kUnregistered;
  if (entry.state.load(std::memory_order_relaxed) == kUnregistered &&
      entry.state.compare_exchange_strong(state, kAsked, std::memory_order_acq_rel)) {
    domain.retries->note_work();
  }
}

// A lookup in this region would have to wait for, or do, the registration of the whole region,
// although it needs little of it. Where regions are registered ahead of lookups, asks the registrar
// for this one.
bool is_still_to_come(const DomainParts& domain, const Region& region, size_t length) {
  if (region.length < EarlyParts::kLeastRegion || length > region.length / 2) return false;
  const bool may_be_cut = !domain.device.may_run_in_malloc() &&
                          domain.rules.permits(RegionCaller::kRegistrar) &&
                          domain.mrs.takes(region) && !domain.device.has(RDM_BACKEND_ONCE);
  if (!may_be_cut) return false;
  KeyEntry& entry = domain.keys.entry_of(region);
  const uint32_t state = entry.state.load(std::memory_order_acquire);
  if (state == kRegistered || state == kRefused || entry.was_refused()) return false;
  if (!domain.rules.registers_when_asked()) ask_for_rest(domain, entry);
  return true;
}

// Registers whole units, so that later lookups nearby hit them; if the units have holes, only the
// pages of the buffer. False for any other obstacle: the lookup then waits for the region.
bool register_early(DomainParts& domain, const Region& region, uintptr_t address, size_t length) {
  if (!domain.early.has_room()) return false;
  const rdm_backend_limits& limits = domain.device.limits();
  const PageMarks* const marks = domain.source->marks();
  const size_t offset = address - region.base;
  size_t from = 0;
  size_t to = 0;
  bool has_all = false;
  for (const size_t unit : {std::max(EarlyParts::kUnit, limits.alignment), limits.alignment}) {
    from = os::align_down(offset, unit);
    to = std::min(os::align_up(offset + length, unit), domain.mrs.length_of(region));
    const bool fits = to >= offset + length && to - from <= limits.max_length;
    has_all = fits && (marks == nullptr || !marks->has_hole(region.base + from, to - from));
    if (has_all) break;
  }
  if (!has_all) return false;
  os::NoCancel no_cancel;
  if (domain.mrs.fills(region) &&
      !domain.source->populate_part(region, region.base + from, region.base + to)) {
    return false;
  }
  EarlyParts::Part part{region.base + from, to - from, {}};
  char why[Complaints::kLongest] = {};
  if (domain.mrs.register_range(region, from, part.length, &part.key, why, sizeof why) != RDM_OK)
    return false;
  if (domain.early.add(region.index, part)) return true;
  (void)domain.mrs.deregister_piece(region, {0, part.length, part.key}, false);
  return false;
}

}  // namespace

// Where regions are registered when they are asked for, a part that answers a second lookup has
// saved its program a registration, which pays for the region's own: the program never makes more
// registrations than it asks for. Before there is no room for parts, when a lookup would have to
// wait for all of a region, the registrar is asked for the region anyhow.
bool look_up_early(DomainParts& domain, const Region& region, const void* address, size_t length,
                   rdm_mr* out) {
  if (!is_still_to_come(domain, region, length)) return false;
  const auto at = reinterpret_cast<uintptr_t>(address);
  EarlyParts::Part part;
  const bool is_there = domain.early.find(at, length, &part);
  if (!is_there &&
      (!register_early(domain, region, at, length) || !domain.early.find(at, length, &part))) {
    return false;
  }
  if (is_there || domain.early.is_half_full()) ask_for_rest(domain, domain.keys.entry_of(region));
  *out = mr_of(part.base, part.length, part.key);
  return true;
}

}  // namespace rdmalloc
