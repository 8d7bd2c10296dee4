// The slow path of lookups: everything except a hit in a region that is a single MR.
#include "allocator/breakage.h"
#include "allocator/last_error.h"
#include "regcache/domain/domain.h"

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

}  // namespace

int Domain::miss(int status, const char* why) {
  counters_->lookups.count();
  counters_->misses.fetch_add(1, std::memory_order_relaxed);
  return fail_often(status, why);
}

int Domain::lookup_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out) {
  if (domain == nullptr || out == nullptr) {
    return fail_often(RDM_INVALID, "the domain, or the place for the result, is null");
  }
  return domain->find_or_register(address, length, out);
}

int Domain::find_or_register(const void* address, size_t length, rdm_mr* out) {
  if (!entrance_.enter()) {
    return is_in_use() ? miss(RDM_NOT_REGISTERED,
                              "the domain is the parent's, or is being closed: open one in this "
                              "process")
                       : fail_often(RDM_INVALID, "the domain is closed");
  }
  const int status = lookup_entered(address, length, out);
  entrance_.leave();
  return status;
}

int Domain::lookup_entered(const void* address, size_t length, rdm_mr* out) {
  if (length == 0) return miss(RDM_INVALID, "no bytes are asked for");
  const Region* region = source_->regions().find(address);
  const PageMarks* const marks = source_->marks();
  if (region == nullptr || length > region->end() - reinterpret_cast<uintptr_t>(address)) {
    return miss(RDM_NOT_OWNED,
                "the range is not, or not all, in one region of malloc'd memory: rdm_get takes "
                "other memory, too");
  }
  if (marks != nullptr && marks->is_retired(reinterpret_cast<uintptr_t>(address), length)) {
    return miss(RDM_NOT_OWNED, why_gone(*marks, reinterpret_cast<uintptr_t>(address), length));
  }
  if (is_named_only() && !region->exposed) return miss(RDM_NOT_REGISTERED, kNotNamed);
  if (is_still_to_come(*region, length) && find_early(*region, address, length, out)) {
    counters_->lookups.count();
    return RDM_OK;
  }
  if (register_entered(*region, Caller::kLookup) != RDM_OK) {
    return miss(RDM_NOT_REGISTERED, kNotRegistered);
  }
  const KeyEntry& entry = entry_of(*region);
  const size_t registered = entry.length.load(std::memory_order_acquire);
  if (registered == 0) return lookup_piece(*region, address, length, out);
  const size_t into = reinterpret_cast<uintptr_t>(address) - region->base;
  const size_t beyond = RDM_BROKEN(lookup_answers_beyond) ? 1 : 0;
  if (into >= registered + beyond || length > registered + beyond - into) {
    return miss(RDM_NOT_REGISTERED, kNotRegistered);
  }
  fill(reinterpret_cast<void*>(region->base), registered, entry.key(), out);
  counters_->lookups.count();
  return RDM_OK;
}

int Domain::lookup_piece(const Region& region, const void* address, size_t length, rdm_mr* out) {
  const KeyEntry& entry = entry_of(region);
  const size_t into = reinterpret_cast<uintptr_t>(address) - region.base;
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
  const Piece none{};
  const Piece& piece = low == 0 ? none : entry.piece[low - 1];
  const size_t inside = into - piece.offset;
  if (inside >= piece.length || length > piece.length - inside) {
    const PageMarks* const marks = source_->marks();
    const bool is_shut = marks != nullptr && marks->is_changed(region.base + into, length);
    return miss(RDM_NOT_REGISTERED, is_shut ? kShut : kNotRegistered);
  }
  fill(reinterpret_cast<void*>(region.base + piece.offset), piece.length, piece.key, out);
  counters_->lookups.count();
  return RDM_OK;
}

}  // namespace rdmalloc
