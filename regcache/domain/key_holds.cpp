#include "regcache/domain/key_holds.h"

#include "allocator/breakage.h"
#include "allocator/os/futex.h"
#include "allocator/os/thread.h"
#include "regcache/domain/domain.h"

namespace rdmalloc {

bool KeyHolds::open(const RegionTable& regions) {
  if (!uses_.make_room(regions.capacity())) return false;
  uses_.forget(regions.size());
  counts_uses_ = false;
  return true;
}

bool KeyHolds::is_unused(const Region& region) const {
  return uses_.is_unused(region.index) || RDM_BROKEN(used_key_is_given_back);
}

int KeyHolds::hold(const void* address, size_t length, rdm_mr* out, uint32_t* use) {
  const DomainParts& domain = domain_->parts();
  if (!counts_uses_.load(std::memory_order_relaxed)) counts_uses_ = true;
  const Region* const region = domain.source->regions().find(address);
  if (region == nullptr)
    return domain.counters->miss(RDM_NOT_OWNED, "the range is not malloc'd memory");
  if (!uses_.begin(region->index)) {
    return domain.counters->miss(RDM_NOT_REGISTERED,
                                 "the region is being deregistered to make room");
  }
  *use = uses_.use_of_whole(region->index);
  const int status = domain_->lookup(address, length, out);
  if (status != RDM_OK) {
    uses_.end(*use);
  } else if (out->length != domain.keys.entry_of(*region).length.load(std::memory_order_relaxed) &&
             domain.early.has_key(*out)) {
    *use = uses_.use_of_part(region->index);
  }
  return status;
}

// An estimate: a region may be cut into pieces, and a part registered ahead counts as one unit.
size_t KeyHolds::unused_bytes(const Region& region) const {
  const DomainParts& domain = domain_->parts();
  if (region.is_empty() || !is_unused(region)) return 0;
  const KeyEntry& entry = domain.keys.entry_of(region);
  const uint32_t state = entry.state.load(std::memory_order_acquire);
  if (state == kBusy)
    return domain.mrs.length_of(region);  // registered ahead: no key was asked for
  if (state == kRegistered) {
    const size_t length = entry.length.load(std::memory_order_relaxed);
    if (length != 0) return length;
    if (entry.pieces.load(std::memory_order_relaxed) != 0) return domain.mrs.length_of(region);
  }
  const bool has_parts = domain.early.has_of(region.index) && uses_.are_parts_unused(region.index);
  return has_parts ? EarlyParts::kUnit : 0;
}

size_t KeyHolds::unused_bytes() const {
  const DomainParts& domain = domain_->parts();
  size_t bytes = 0;
  if (!domain.entrance.is_open() || !counts_uses_) return 0;
  for (size_t i = 0; i < domain.source->regions().size(); ++i) {
    bytes += unused_bytes(domain.source->regions()[i]);
  }
  return bytes;
}

// Newest regions first.
size_t KeyHolds::give_back(size_t bytes) {
  const DomainParts& domain = domain_->parts();
  if (!counts_uses_ || !domain.entrance.enter()) return 0;
  size_t given = 0;
  for (size_t i = domain.source->regions().size(); i-- > 0 && given < bytes;) {
    const Region& region = domain.source->regions()[i];
    if (unused_bytes(region) == 0) continue;
    const bool is_closed = uses_.close(region.index);
    if (is_closed || RDM_BROKEN(used_key_is_given_back)) given += give_back_region(region);
    if (is_closed) uses_.open(region.index);
  }
  domain.entrance.leave();
  return given;
}

// Gives back a region whose count is closed; the next request for it registers it again. If the
// registrar is working on the region, waits for it, and then counts the region as given back
// whatever came of that: it may have been pinned meanwhile.
size_t KeyHolds::give_back_region(const Region& region) {
  DomainParts& domain = domain_->parts();
  KeyEntry& entry = domain.keys.entry_of(region);
  const bool was_busy = entry.state.load(std::memory_order_acquire) == kBusy;
  os::wait_a_second(entry.state, [](uint32_t now) { return now != kBusy; });
  uint32_t state = entry.state.load(std::memory_order_acquire);
  const bool is_mine = state != kBusy &&
                       entry.state.compare_exchange_strong(state, kBusy, std::memory_order_acq_rel);
  if (!is_mine) return 0;
  os::NoCancel no_cancel;
  size_t given = 0;
  const auto deregister_one = [&](const Piece& piece) {
    if (domain.mrs.deregister_piece(region, piece, false) == RDM_OK) given += piece.length;
  };
  if (state == kRegistered) {
    entry.set_short(false);
    deregister_one({0, entry.length.exchange(0, std::memory_order_acq_rel), entry.key()});
    for (; entry.pieces != 0; --entry.pieces) deregister_one(entry.piece[entry.pieces - 1]);
    state = kUnregistered;
  }
  EarlyParts::Part part;
  while (uses_.are_parts_unused(region.index) && domain.early.take_of(region.index, &part)) {
    deregister_one({0, part.length, part.key});
    if (state == kAsked) state = kUnregistered;
  }
  entry.state.store(state, std::memory_order_release);
  os::wake_all(entry.state);
  return was_busy && given == 0 ? domain.mrs.length_of(region) : given;
}

}  // namespace rdmalloc
