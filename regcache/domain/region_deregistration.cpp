#include "regcache/domain/region_deregistration.h"

#include "allocator/os/futex.h"
#include "allocator/os/thread.h"

namespace rdmalloc {
namespace {

// The calling thread has claimed the region. False: the backend asks to come later.
bool let_go_of_early(DomainParts& domain, const Region& region) {
  for (EarlyParts::Part part; domain.early.take_of(region.index, &part);) {
    const Piece piece{0, part.length, part.key};
    if (domain.mrs.deregister_piece(region, piece, true) != RDM_BACKEND_LATER) continue;
    (void)domain.early.add(region.index, part);  // there is room: it was just removed
    return false;
  }
  return true;
}

// Does nothing if another thread is working on the region.
void let_go_of(DomainParts& domain, const Region& region) {
  KeyEntry& entry = domain.keys.entry_of(region);
  uint32_t state = entry.state.load(std::memory_order_acquire);
  const bool has_some =
      state != kBusy && (state != kUnregistered || domain.early.has_of(region.index));
  const bool is_mine =
      has_some && entry.state.compare_exchange_strong(state, kBusy, std::memory_order_acq_rel);
  if (!is_mine) return;
  os::NoCancel no_cancel;
  const auto is_put_off_for = [&](const Piece& piece) {
    return domain.mrs.deregister_piece(region, piece, true) == RDM_BACKEND_LATER;
  };
  // From here on lookups no longer find the key, unless it stays.
  entry.set_short(false);
  const Piece whole{0, entry.length.exchange(0, std::memory_order_acq_rel), entry.key()};
  bool is_put_off = is_put_off_for(whole);
  if (is_put_off) entry.length.store(whole.length, std::memory_order_release);
  while (!is_put_off && entry.pieces != 0) {
    is_put_off = is_put_off_for(entry.piece[entry.pieces - 1]);
    if (!is_put_off) --entry.pieces;
  }
  is_put_off = is_put_off || !let_go_of_early(domain, region);
  if (!is_put_off) entry.forget_refusals();
  entry.state.store(is_put_off ? kRegistered : kUnregistered, std::memory_order_release);
  os::wake_all(entry.state);
}

bool deregister(DomainParts& domain, const Region& region) {
  KeyEntry& entry = domain.keys.entry_of(region);
  const Piece whole{0, entry.length.exchange(0, std::memory_order_acq_rel), entry.key()};
  const uint32_t pieces = entry.pieces;
  entry.pieces = 0;
  entry.set_short(false);
  entry.forget_refusals();
  entry.state.store(kUnregistered, std::memory_order_release);
  const auto is_gone = [&](const Piece& piece) {
    return domain.mrs.deregister_piece(region, piece, false) == RDM_OK;
  };
  bool is_done = is_gone(whole);
  for (uint32_t i = pieces; i-- > 0;) is_done = is_gone(entry.piece[i]) && is_done;
  for (EarlyParts::Part part; domain.early.take_of(region.index, &part);) {
    is_done = is_gone({0, part.length, part.key}) && is_done;
  }
  return is_done;
}

}  // namespace

void RegionDeregistration::retire(const Region& region, RegionCaller caller) {
  if (!domain_->rules.is_replayed() || !domain_->entrance.enter()) return;
  const bool may_call = caller != RegionCaller::kMalloc || domain_->device.may_run_in_malloc();
  // The slot may belong to another region by now.
  if (may_call && region.is_empty()) let_go_of(*domain_, region);
  domain_->entrance.leave();
}

void RegionDeregistration::retire_leftovers() {
  const RegionTable& regions = domain_->source->regions();
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].is_empty()) retire(regions[i], RegionCaller::kLookup);
  }
}

bool RegionDeregistration::keeps(const Region& region) const {
  // First, because a domain that is not in use may be opened now, and has perhaps no table yet.
  if (!domain_->entrance.is_in_use()) return false;
  return domain_->entrance.has_anyone_inside() ||
         domain_->keys.entry_of(region).state.load(std::memory_order_seq_cst) != kUnregistered ||
         domain_->early.has_of(region.index);
}

void RegionDeregistration::release_for_fork() {
  if (!domain_->rules.releases_at_fork() || !domain_->entrance.enter()) return;
  domain_->rules.note_released();
  const RegionTable& regions = domain_->source->regions();
  for (size_t i = 0; i < regions.size(); ++i) {
    const KeyEntry& entry = domain_->keys.entry_of(regions[i]);
    if (entry.state.load(std::memory_order_acquire) == kRegistered ||
        domain_->early.has_of(regions[i].index)) {
      let_go_of(*domain_, regions[i]);
    }
  }
  (void)domain_->foreign->idle().give_up(domain_->foreign->idle().bytes(UINT64_MAX));
  domain_->entrance.leave();
}

bool RegionDeregistration::deregister_all() {
  const RegionTable& regions = domain_->source->regions();
  bool is_done = true;
  for (size_t i = regions.size(); i-- > 0;) {
    is_done = deregister(*domain_, regions[i]) && is_done;
  }
  return is_done;
}

}  // namespace rdmalloc
