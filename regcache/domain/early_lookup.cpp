#include "regcache/domain/early_lookup.h"

#include <algorithm>

#include "allocator/os/thread.h"
#include "regcache/domain/early_claim.h"

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
  if (entry.is_readable(state) || state == kRefused || entry.was_refused()) return false;
  if (!domain.rules.registers_when_asked()) ask_for_rest(domain, entry);
  return true;
}

// The part to register for the buffer: whole units, so that later lookups nearby hit it; if these
// have holes, only the pages of the buffer. False: there is none.
bool choose_part(const DomainParts& domain, const Region& region, uintptr_t address, size_t length,
                 EarlyParts::Part* out) {
  const rdm_backend_limits& limits = domain.device.limits();
  const PageMarks* const marks = domain.source->marks();
  const size_t offset = address - region.base;
  for (const size_t unit : {std::max(EarlyParts::kUnit, limits.alignment), limits.alignment}) {
    const size_t from = os::align_down(offset, unit);
    const size_t to = std::min(os::align_up(offset + length, unit), domain.mrs.length_of(region));
    const bool fits = to >= offset + length && to - from <= limits.max_length;
    if (!fits || (marks != nullptr && marks->has_hole(region.base + from, to - from))) continue;
    *out = {region.base + from, to - from, {}};
    return true;
  }
  return false;
}

// False: there was an obstacle, and the lookup takes the whole region.
bool register_part(DomainParts& domain, const Region& region, EarlyParts::Part* part) {
  if (domain.mrs.fills(region) &&
      !domain.source->populate_part(region, part->base, part->base + part->length)) {
    return false;
  }
  char why[Complaints::kLongest] = {};
  if (domain.mrs.register_range(region, part->base - region.base, part->length, &part->key, why,
                                sizeof why) != RDM_OK) {
    return false;
  }
  if (domain.early.add(region.index, *part)) return true;
  (void)domain.mrs.deregister_piece(region, {0, part->length, part->key}, false);
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
  bool is_there = domain.early.find(at, length, &part);
  if (!is_there) {
    if (!domain.early.has_room() || !choose_part(domain, region, at, length, &part)) return false;
    os::NoCancel no_cancel;
    const EarlyClaim claim(domain.early_claims, part.base);
    is_there = domain.early.find(at, length, &part);
    // What was looked at before may have changed while this thread waited.
    if (!is_there && (!is_still_to_come(domain, region, length) ||
                      !choose_part(domain, region, at, length, &part) ||
                      !register_part(domain, region, &part))) {
      return false;
    }
  }
  if (is_there || domain.early.is_half_full()) ask_for_rest(domain, domain.keys.entry_of(region));
  *out = mr_of(part.base, part.length, part.key);
  return true;
}

}  // namespace rdmalloc
