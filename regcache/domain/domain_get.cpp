// rdm_get and rdm_put: memory in the window is looked up; all other memory goes to the foreign
// cache.
#include <algorithm>

#include "allocator/last_error.h"
#include "regcache/domain/domain.h"

namespace rdmalloc {
namespace {

// Fails with the status that a lookup would give.
int refuse_not_open(const Domain& domain) {
  return domain.is_in_use()
             ? fail(RDM_NOT_REGISTERED, "the domain is the parent's: open one in this process")
             : fail(RDM_INVALID, "the domain is closed");
}

// Pages of the range lie between pieces that were registered around a hole. Gaps that come from a
// device's limits do not count.
bool has_gap(const KeyEntry& entry, size_t offset, size_t length) {
  const uint32_t pieces = entry.pieces.load(std::memory_order_acquire);
  size_t covered = 0;
  bool is_left_out = false;
  for (uint32_t i = 0; i < pieces; ++i) {
    const Piece& piece = entry.piece[i];
    const size_t from = std::max(covered, offset);
    if (!is_left_out && from < std::min(piece.offset, offset + length)) return true;
    const size_t registered = piece.registered();
    is_left_out = registered == 0;
    covered = piece.offset + registered;
  }
  return !is_left_out && covered < offset + length;
}

bool has_gaps(const DomainParts& domain, const Region& region) {
  return domain.keys.entry_of(region).length == 0 || domain.mrs.has_hole(region, region.length);
}

// No lookup finds this range: the program has mapped something else there, or restored its access
// rights after the rest of its region was registered.
bool is_beside_registrations(const DomainParts& domain, const Region* region, uintptr_t address,
                             size_t length) {
  const PageMarks* const marks = domain.source->marks();
  if (marks == nullptr) return false;
  if (marks->is_changed(address, length)) return true;
  if (region == nullptr || marks->is_retired(address, length)) return false;
  const KeyEntry& entry = domain.keys.entry_of(*region);
  const uint32_t state = entry.state.load(std::memory_order_acquire);
  const bool is_refused = state == kRefused || (state == kBusy && entry.was_refused());
  // The region contains something that the device cannot register, and no monitor reported it.
  if (is_refused && entry.refusal == RDM_SYSTEM) return true;
  const bool is_in_pieces = entry.is_readable(state) && domain.mrs.length_of(*region) != 0 &&
                            entry.length.load(std::memory_order_acquire) == 0;
  return is_in_pieces && has_gap(entry, address - region->base, length);
}

// What is registered of the region covers the range, as one memory region.
bool covers(const KeyEntry& entry, size_t offset, size_t length) {
  const auto is_inside = [&](size_t from, size_t bytes) {
    return offset >= from && offset - from < bytes && length <= bytes - (offset - from);
  };
  if (is_inside(0, entry.length.load(std::memory_order_acquire))) return true;
  const uint32_t pieces = entry.pieces.load(std::memory_order_acquire);
  return std::any_of(entry.piece, entry.piece + pieces, [&](const Piece& piece) {
    return is_inside(piece.offset, piece.registered());
  });
}

// After so many lookups were refused: the next one would be, too, because the domain does not
// register this memory, or has tried, and nobody is trying again now; or it has been put off twice.
bool stays_refused(const DomainParts& domain, const Region* region, uintptr_t address,
                   size_t length, int lookups) {
  if (region == nullptr || !domain.mrs.takes(*region)) return true;
  const KeyEntry& entry = domain.keys.entry_of(*region);
  const uint32_t state = entry.state.load(std::memory_order_acquire);
  if (state == kRefused) return true;
  if (state == kUnregistered) return lookups > 1;
  // Still was when its parts were read.
  return entry.is_readable(state) && !covers(entry, address - region->base, length) &&
         entry.is_readable(entry.state.load(std::memory_order_acquire));
}

// The MR is one that lookups hand out.
bool is_of_region(const DomainParts& domain, const Region& region, const rdm_mr& mr) {
  const KeyEntry& entry = domain.keys.entry_of(region);
  const auto is_it = [&](const rdm_backend_key& key) {
    return key.lkey == mr.lkey && key.rkey == mr.rkey && key.handle == mr.handle;
  };
  if (domain.early.has_key(mr)) return true;
  if (entry.length.load(std::memory_order_acquire) != 0) return is_it(entry.key());
  const uint32_t pieces = entry.pieces.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < pieces; ++i) {
    if (entry.piece[i].registered() != 0 && is_it(entry.piece[i].key)) return true;
  }
  return false;
}

// Unpinned memory of the window is registered like foreign memory, and so are ranges that lookups
// skip in a region with holes.
int get_of_window(Domain& domain, const void* address, size_t length, rdm_mr* out) {
  const int status = domain.lookup(address, length, out);
  if (status == RDM_OK) return status;
  if (length == 0) return fail(status, "no bytes are asked for");
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  DomainParts& parts = domain.parts();
  const Window& window = parts.source->window();
  if (length > window.base() + window.size() - at) {
    return fail(RDM_INVALID,
                "the range begins inside the window of malloc'd memory and ends outside: no "
                "registration covers both");
  }
  const Region* const region = parts.source->regions().find(address);
  const auto is_beside_now = [&] { return is_beside_registrations(parts, region, at, length); };
  const bool is_beside = is_beside_now();
  const size_t rest = region == nullptr ? 0 : region->end() - at;
  if (length > rest && !is_beside) {
    return fail(status,
                "the range is not, or not all, in one region of the window: pass a buffer that "
                "malloc returned");
  }
  if (!domain.is_open()) return refuse_not_open(domain);
  const PageMarks* const marks = parts.source->marks();
  // What the program has just unmapped is marked as changed first.
  if (!is_beside && marks != nullptr && marks->is_retired(at, length) &&
      !marks->is_changed(at, length)) {
    return fail(RDM_NOT_OWNED, "the memory at these addresses was retired");
  }
  const bool is_callers_only = parts.rules.is_callers_only();
  if ((!is_beside && parts.mrs.takes(*region)) || is_callers_only) {
    // The region may have been re-registered during the lookup; by now it is registered, or refused
    // because of a hole that another thread has made in it; or it is re-registered again.
    constexpr int kTries = 10;
    bool is_beside_by_now = false;
    for (int i = 1; i <= kTries; ++i) {
      const auto is_refused = [&] { return stays_refused(parts, region, at, length, i); };
      const bool was_refused = is_refused();
      is_beside_by_now = is_beside_now();
      // The registrar may have succeeded between the two.
      if (is_beside_by_now || (was_refused && is_refused())) break;
      if (domain.lookup(address, length, out) == RDM_OK) return RDM_OK;
    }
    if (!is_beside_by_now || is_callers_only) {
      return fail(status, domain.why()[0] != '\0'
                              ? domain.why()
                              : "the device's limits do not allow to register all of "
                                "the malloc'd memory");
    }
  }
  uint32_t touched = PageMemo::kNone;
  if (parts.foreign->get_hit(address, length, out, &touched)) return RDM_OK;
  return parts.foreign->get_slowly(address, length, out, touched);
}

}  // namespace

int Domain::get_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out,
                       uint32_t touched) {
  if (domain == nullptr || out == nullptr) {
    return fail(RDM_INVALID, "the domain, or the place for the result, is null");
  }
  const DomainParts& parts = domain->parts_;
  if (touched != PageMemo::kNone) parts.foreign->release_touched(touched);
  if (parts.keys.is_in_window(address)) return get_of_window(*domain, address, length, out);
  if (!domain->is_open()) return refuse_not_open(*domain);
  if (parts.rules.is_callers_only()) {
    return fail(RDM_UNSUPPORTED,
                "a domain of RDM_DOMAIN_CALLERS_ONLY registers malloc'd memory alone: other memory "
                "may have to be deregistered by any thread that changes it");
  }
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  const uintptr_t window_base = parts.source->window().base();
  if (at < window_base && length > window_base - at) {
    return fail(RDM_INVALID,
                "the range begins outside the window of malloc'd memory and ends inside: no "
                "registration covers both");
  }
  return parts.foreign->get_slowly(address, length, out, PageMemo::kNone);
}

int Domain::put_slowly(Domain* domain, const rdm_mr* mr, uint32_t touched) {
  if (domain == nullptr || mr == nullptr) {
    return fail(RDM_INVALID, "the domain, or the memory region, is null");
  }
  const DomainParts& parts = domain->parts_;
  if (!domain->is_open()) {
    // In a child of fork, the parent's references no longer count.
    return domain->is_in_use() ? RDM_OK : fail(RDM_INVALID, "the domain is closed");
  }
  if (parts.keys.is_in_window(mr->base)) {
    const Region* const region = parts.source->regions().find(mr->base);
    const bool is_taken = region != nullptr && parts.mrs.takes(*region);
    if (is_taken && is_of_region(parts, *region, *mr)) return RDM_OK;
    // A range that was foreign at rdm_get still is, even if the region has been registered since.
    const int status = parts.foreign->put_slowly(*mr, touched);
    const bool is_lookups = status == RDM_INVALID && is_taken && !has_gaps(parts, *region);
    return is_lookups ? RDM_OK : status;
  }
  return parts.foreign->put_slowly(*mr, touched);
}

}  // namespace rdmalloc
