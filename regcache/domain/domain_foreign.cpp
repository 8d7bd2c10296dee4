// rdm_get and rdm_put: memory in the window is looked up; all other memory goes to the foreign
// cache.
#include "regcache/domain/domain_foreign.h"

#include <stdio.h>

#include <algorithm>

#include "allocator/last_error.h"

namespace rdmalloc {

int Domain::get_slowly(Domain* domain, const void* address, size_t length, rdm_mr* out,
                       uint32_t touched) {
  if (domain == nullptr || out == nullptr) {
    return fail(RDM_INVALID, "the domain, or the place for the result, is null");
  }
  if (touched != PageMemo::kNone) domain->foreign_->release_touched(touched);
  if (domain->is_in_window(address)) return domain->get_of_window(address, length, out);
  if (!domain->is_open()) return domain->refuse_not_open();
  if (domain->callers_only_) {
    return fail(RDM_UNSUPPORTED,
                "a domain of RDM_DOMAIN_CALLERS_ONLY registers malloc'd memory alone: other memory "
                "may have to be deregistered by any thread that changes it");
  }
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  if (at < domain->window_base_ && length > domain->window_base_ - at) {
    return fail(RDM_INVALID,
                "the range begins outside the window of malloc'd memory and ends inside: no "
                "registration covers both");
  }
  return domain->foreign_->get_slowly(address, length, out, PageMemo::kNone);
}

// Fails with the status that a lookup would give.
int Domain::refuse_not_open() const {
  return is_in_use()
             ? fail(RDM_NOT_REGISTERED, "the domain is the parent's: open one in this process")
             : fail(RDM_INVALID, "the domain is closed");
}

// No lookup finds this range: the program has mapped something else there, or restored its access
// rights after the rest of its region was registered.
bool Domain::is_beside_registrations(const Region* region, uintptr_t address, size_t length) const {
  const PageMarks* const marks = source_->marks();
  if (marks == nullptr) return false;
  if (marks->is_changed(address, length)) return true;
  if (region == nullptr || marks->is_retired(address, length)) return false;
  const KeyEntry& entry = entry_of(*region);
  const uint32_t state = entry.state.load(std::memory_order_acquire);
  const bool is_refused = state == kRefused || (state == kBusy && entry.was_refused());
  // The region contains something that the device cannot register, and no monitor reported it.
  if (is_refused && entry.refusal == RDM_SYSTEM) return true;
  return has_gap(*region, address - region->base, length);
}

// Pages of the range lie between pieces that were registered around a hole. Gaps that come from a
// device's limits do not count.
bool Domain::has_gap(const Region& region, size_t offset, size_t length) const {
  const KeyEntry& entry = entry_of(region);
  const uint32_t pieces = entry.pieces.load(std::memory_order_acquire);
  size_t covered = 0;
  bool is_left_out = false;
  for (uint32_t i = 0; i < pieces; ++i) {
    const Piece& piece = entry.piece[i];
    const size_t from = std::max(covered, offset);
    if (!is_left_out && from < std::min(piece.offset, offset + length)) return true;
    is_left_out = piece.length == 0;
    covered = piece.offset + piece.length;
  }
  return pieces != 0 && !is_left_out && covered < offset + length;
}

bool Domain::may_keep(uintptr_t base, size_t length) const {
  const void* const address = reinterpret_cast<const void*>(base);
  if (!is_in_window(address)) return true;
  if (is_for_users_only(base)) return false;
  const Region* const region = source_->regions().find(address);
  const PageMarks* const marks = source_->marks();
  return region != nullptr && !mrs_.takes(*region) &&
         (marks == nullptr || !marks->has_hole(base, length));
}

// The MR is one that lookups hand out.
bool Domain::is_of_region(const Region& region, const rdm_mr& mr) const {
  const KeyEntry& entry = entry_of(region);
  const auto is_it = [&](const rdm_backend_key& key) {
    return key.lkey == mr.lkey && key.rkey == mr.rkey && key.handle == mr.handle;
  };
  if (early_.has_key(mr)) return true;
  if (entry.length.load(std::memory_order_acquire) != 0) return is_it(entry.key());
  const uint32_t pieces = entry.pieces.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < pieces; ++i) {
    if (entry.piece[i].length != 0 && is_it(entry.piece[i].key)) return true;
  }
  return false;
}

// Unpinned memory of the window is registered like foreign memory, and so are ranges that lookups
// skip in a region with holes.
int Domain::get_of_window(const void* address, size_t length, rdm_mr* out) {
  const int status = lookup(this, address, length, out);
  if (status == RDM_OK) return status;
  if (length == 0) return fail(status, "no bytes are asked for");
  if (length > window_base_ + window_size_ - reinterpret_cast<uintptr_t>(address)) {
    return fail(RDM_INVALID,
                "the range begins inside the window of malloc'd memory and ends outside: no "
                "registration covers both");
  }
  const Region* const region = source_->regions().find(address);
  const auto is_beside_now = [&] {
    return is_beside_registrations(region, reinterpret_cast<uintptr_t>(address), length);
  };
  const bool is_beside = is_beside_now();
  const size_t rest = region == nullptr ? 0 : region->end() - reinterpret_cast<uintptr_t>(address);
  if (length > rest && !is_beside) {
    return fail(status,
                "the range is not, or not all, in one region of the window: pass a buffer that "
                "malloc returned");
  }
  if (!is_open()) return refuse_not_open();
  if ((!is_beside && mrs_.takes(*region)) || callers_only_) {
    // The region was being re-registered during the lookup; by now it is registered, or refused
    // because of a hole that another thread has made in it.
    if (lookup(this, address, length, out) == RDM_OK) return RDM_OK;
    if (callers_only_ || !is_beside_now()) {
      return fail(status, why()[0] != '\0' ? why()
                                           : "the device's limits do not allow to register all of "
                                             "the malloc'd memory");
    }
  }
  uint32_t touched = PageMemo::kNone;
  if (foreign_->get_hit(address, length, out, &touched)) return RDM_OK;
  return foreign_->get_slowly(address, length, out, touched);
}

int Domain::put_slowly(Domain* domain, const rdm_mr* mr, uint32_t touched) {
  if (domain == nullptr || mr == nullptr) {
    return fail(RDM_INVALID, "the domain, or the memory region, is null");
  }
  if (!domain->is_open()) {
    // In a child of fork, the parent's references no longer count.
    return domain->is_in_use() ? RDM_OK : fail(RDM_INVALID, "the domain is closed");
  }
  if (domain->is_in_window(mr->base)) {
    const Region* const region = domain->source_->regions().find(mr->base);
    const bool is_taken = region != nullptr && domain->mrs_.takes(*region);
    if (is_taken && domain->is_of_region(*region, *mr)) return RDM_OK;
    // A range that was foreign at rdm_get still is, even if the region has been registered since.
    const int status = domain->foreign_->put_slowly(*mr, touched);
    const bool is_lookups = status == RDM_INVALID && is_taken && !domain->has_gaps(*region);
    return is_lookups ? RDM_OK : status;
  }
  return domain->foreign_->put_slowly(*mr, touched);
}

rdm_backend_request Domain::request_for_foreign(uintptr_t base, size_t length) const {
  rdm_backend_request request{};
  request.base = reinterpret_cast<void*>(base);
  request.length = length;
  request.page_size = os::page_size();
  // Unpinned memory of the window shares its pages with other malloc'd objects.
  request.access = mrs_.access_for_foreign(is_in_window(request.base));
  request.node = -1;
  request.foreign = 1;
  return request;
}

int DomainDevice::register_foreign(uintptr_t base, size_t length, size_t kept, rdm_backend_key* key,
                                   char* why, size_t why_size) {
  domain_->register_missed();
  Device& device = domain_->device();
  const int charges = device.limits().charges;
  const rdm_backend_request request = domain_->request_for_foreign(base, length);
  const int status = device.register_memory(request, charges, kept, key, why, why_size);
  if (status != RDM_OUT_OF_BUDGET) return status;
  const size_t shortfall = device.shortfall(charges, length);
  if (shortfall == 0 || !device.is_limit_raised(charges, shortfall)) return status;
  return device.register_memory(request, charges, 0, key, why, why_size);
}

int Domain::close_foreign() {
  uint32_t users = 0;
  const int status = foreign_->close(&users);
  if (status != RDM_BUSY) return status;
  char sentence[Complaints::kLongest];
  snprintf(sentence, sizeof sentence,
           "%u registrations of foreign memory are in use: rdm_put each as often as rdm_get "
           "returned it, then close the domain",
           users);
  return fail(RDM_BUSY, sentence);
}

}  // namespace rdmalloc
