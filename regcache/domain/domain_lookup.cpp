// The slow path of lookups: everything except a hit in a region that is a single MR.
#include "allocator/breakage.h"
#include "allocator/last_error.h"
#include "regcache/domain/domain.h"
#include "regcache/domain/early_lookup.h"

namespace rdmalloc {
namespace {

constexpr char kNotRegistered[] =
    "no registration of the domain covers the range: its memory is not pinned, or the device did "
    "not take it";

constexpr char kNotNamed[] =
    "the domain registers only what is named (RDM_DOMAIN_NAMED_ONLY): rdm_get the buffer, or take "
    "it "
    "from a pool or from exposed memory";

constexpr char kShut[] =
    "the program has given up its right to read or write some of these pages (mprotect), so they "
    "cannot be registered";

// The pages have been lost.
const char* why_gone(const PageMarks& marks, uintptr_t address, size_t length) {
  return marks.is_changed(address, length)
             ? "the program has unmapped some of these addresses, or mapped something else over "
               "them: rdm_get takes what lies there now"
             : "the memory at these addresses was retired";
}

// The piece of the region that covers the range; null: none does.
const Piece* find_piece(const KeyEntry& entry, size_t into, size_t length) {
  // Finds the last piece that starts at or before the address.
  size_t low = 0;
  for (size_t high = entry.pieces.load(std::memory_order_acquire); low < high;) {
    const size_t middle = low + (high - low) / 2;
    if (entry.piece[middle].offset <= into) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return nullptr;
  const Piece& piece = entry.piece[low - 1];
  const size_t inside = into - piece.offset;
  const size_t registered = piece.registered();
  return inside < registered && length <= registered - inside ? &piece : nullptr;
}

// In a region that is registered, as one MR or in pieces.
int look_up_registered(DomainParts& domain, const Region& region, size_t into, size_t length,
                       rdm_mr* out) {
  const KeyEntry& entry = domain.keys.entry_of(region);
  const size_t registered = entry.length.load(std::memory_order_acquire);
  if (registered != 0) {
    const size_t beyond = RDM_BROKEN(lookup_answers_beyond) ? 1 : 0;
    if (into >= registered + beyond || length > registered + beyond - into) {
      return domain.counters->miss(RDM_NOT_REGISTERED, kNotRegistered);
    }
    *out = mr_of(region.base, registered, entry.key());
  } else {
    const Piece* const piece = find_piece(entry, into, length);
    if (piece == nullptr) {
      const PageMarks* const marks = domain.source->marks();
      const bool is_shut = marks != nullptr && marks->is_changed(region.base + into, length);
      return domain.counters->miss(RDM_NOT_REGISTERED, is_shut ? kShut : kNotRegistered);
    }
    *out = mr_of(region.base + piece->offset, piece->length, piece->key);
  }
  domain.counters->lookups.count();
  return RDM_OK;
}

// The calling thread has entered the domain.
int look_up_entered(Domain& whole, const void* address, size_t length, rdm_mr* out) {
  DomainParts& domain = whole.parts();
  DomainCounters& counters = *domain.counters;
  if (length == 0) return counters.miss(RDM_INVALID, "no bytes are asked for");
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  const Region* region = domain.source->regions().find(address);
  const PageMarks* const marks = domain.source->marks();
  if (region == nullptr || length > region->end() - at) {
    return counters.miss(
        RDM_NOT_OWNED,
        "the range is not, or not all, in one region of malloc'd memory: rdm_get takes "
        "other memory, too");
  }
  if (marks != nullptr && marks->is_retired(at, length)) {
    return counters.miss(RDM_NOT_OWNED, why_gone(*marks, at, length));
  }
  if (domain.mrs.is_exposed_only() && !region->exposed) {
    return counters.miss(RDM_NOT_REGISTERED, kNotNamed);
  }
  if (look_up_early(domain, *region, address, length, out)) {
    counters.lookups.count();
    return RDM_OK;
  }
  if (whole.registration().register_entered(*region, RegionCaller::kLookup) != RDM_OK) {
    return counters.miss(RDM_NOT_REGISTERED, kNotRegistered);
  }
  return look_up_registered(domain, *region, at - region->base, length, out);
}

// A hit where the region has holes, or the range is long: reads no more than KeyTable::find() does,
// and the bits of the pages.
bool find_beside_holes(const DomainParts& domain, const void* address, size_t length, rdm_mr* out) {
  if (!domain.keys.is_in_window(address) || length == 0) return false;
  const Region* const region = domain.source->regions().find(address);
  const PageMarks* const marks = domain.source->marks();
  const auto at = reinterpret_cast<uintptr_t>(address);
  return region != nullptr && length <= region->end() - at &&
         (marks == nullptr || !marks->is_retired(at, length)) &&
         domain.keys.find_in(*region, at, length, out);
}

}  // namespace

int Domain::lookup_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out) {
  if (domain == nullptr || out == nullptr) {
    return fail_often(RDM_INVALID, "the domain, or the place for the result, is null");
  }
  DomainParts& parts = domain->parts_;
  if (find_beside_holes(parts, address, length, out)) return RDM_OK;
  if (parts.entrance.enter()) {
    const int status = look_up_entered(*domain, address, length, out);
    parts.entrance.leave();
    return status;
  }
  if (!parts.entrance.is_in_use()) return fail_often(RDM_INVALID, "the domain is closed");
  return parts.counters->miss(RDM_NOT_REGISTERED,
                              "the domain is the parent's, or is being closed: open one in this "
                              "process");
}

}  // namespace rdmalloc
