// Counts the uses of keys, and gives back registrations that nobody uses.
#include "allocator/breakage.h"
#include "allocator/os/futex.h"
#include "allocator/os/thread.h"
#include "regcache/domain/domain.h"

namespace rdmalloc {
namespace {

bool is_unused(const KeyUses& uses, const Region& region) {
  return uses.is_unused(region.index) || RDM_BROKEN(used_key_is_given_back);
}

}  // namespace

int Domain::hold(const void* address, size_t length, rdm_mr* out, uint32_t* use) {
  if (!counts_uses_.load(std::memory_order_relaxed)) counts_uses_ = true;
  const Region* const region = source_->regions().find(address);
  if (region == nullptr) return miss(RDM_NOT_OWNED, "the range is not malloc'd memory");
  if (!uses_.begin(region->index)) {
    return miss(RDM_NOT_REGISTERED, "the region is being deregistered to make room");
  }
  *use = uses_.use_of_whole(region->index);
  const int status = lookup(this, address, length, out);
  if (status != RDM_OK) {
    uses_.end(*use);
  } else if (out->length != entry_of(*region).length.load(std::memory_order_relaxed) &&
             early_.has_key(*out)) {
    *use = uses_.use_of_part(region->index);
  }
  return status;
}

// An estimate: a region may be cut into pieces, and a part registered ahead counts as one unit.
size_t Domain::unused_bytes(const Region& region) const {
  if (region.is_empty() || !is_unused(uses_, region)) return 0;
  const KeyEntry& entry = entry_of(region);
  const uint32_t state = entry.state.load(std::memory_order_acquire);
  if (state == kBusy) return mrs_.length_of(region);  // registered ahead: no key was asked for
  if (state == kRegistered) {
    const size_t length = entry.length.load(std::memory_order_relaxed);
    if (length != 0) return length;
    if (entry.pieces.load(std::memory_order_relaxed) != 0) return mrs_.length_of(region);
  }
  const bool has_parts = early_.has_of(region.index) && uses_.are_parts_unused(region.index);
  return has_parts ? EarlyParts::kUnit : 0;
}

size_t Domain::unused_bytes() const {
  size_t bytes = 0;
  if (!is_open() || !counts_uses_) return 0;
  for (size_t i = 0; i < source_->regions().size(); ++i) {
    bytes += unused_bytes(source_->regions()[i]);
  }
  return bytes;
}

// Newest regions first.
size_t Domain::give_back(size_t bytes) {
  if (!counts_uses_ || !entrance_.enter()) return 0;
  size_t given = 0;
  for (size_t i = source_->regions().size(); i-- > 0 && given < bytes;) {
    const Region& region = source_->regions()[i];
    if (unused_bytes(region) == 0) continue;
    const bool is_closed = uses_.close(region.index);
    if (is_closed || RDM_BROKEN(used_key_is_given_back)) {
      given += give_back_region(region, entry_of(region));
    }
    if (is_closed) uses_.open(region.index);
  }
  entrance_.leave();
  return given;
}

// Gives back a region whose count is closed; the next request for it registers it again. If the
// registrar is working on the region, waits for it, and then counts the region as given back
// whatever came of that: it may have been pinned meanwhile.
size_t Domain::give_back_region(const Region& region, KeyEntry& entry) {
  const bool was_busy = entry.state.load(std::memory_order_acquire) == kBusy;
  os::wait_a_second(entry.state, [](uint32_t now) { return now != kBusy; });
  uint32_t state = entry.state.load(std::memory_order_acquire);
  const bool is_mine = state != kBusy &&
                       entry.state.compare_exchange_strong(state, kBusy, std::memory_order_acq_rel);
  if (!is_mine) return 0;
  os::NoCancel no_cancel;
  size_t given = 0;
  const auto deregister_one = [&](const Piece& piece) {
    if (mrs_.deregister_piece(region, piece, false) == RDM_OK) given += piece.length;
  };
  if (state == kRegistered) {
    deregister_one({0, entry.length.exchange(0, std::memory_order_acq_rel), entry.key()});
    for (; entry.pieces != 0; --entry.pieces) deregister_one(entry.piece[entry.pieces - 1]);
    state = kUnregistered;
  }
  EarlyParts::Part part;
  while (uses_.are_parts_unused(region.index) && early_.take_of(region.index, &part)) {
    deregister_one({0, part.length, part.key});
    if (state == kAsked) state = kUnregistered;
  }
  entry.state.store(state, std::memory_order_release);
  os::wake_all(entry.state);
  return was_busy && given == 0 ? mrs_.length_of(region) : given;
}

}  // namespace rdmalloc
