#include "regcache/domain/retries.h"

#include <initializer_list>

#include "include/rdmalloc/backend.h"

namespace rdmalloc {

bool Retries::look_at_limit() {
  const uint64_t limit = source_->pin_limit();
  const uint64_t before = account_->exchange_limit(limit);
  if (limit > before) note_event();
  return limit > before;
}

bool Retries::may_look() {
  const uint64_t now = now_ns();
  if (now - looked_at_.load(std::memory_order_relaxed) < kLookNs) return false;
  looked_at_.store(now, std::memory_order_relaxed);
  return true;
}

void Retries::note_waiting(int charges, size_t bytes) {
  std::atomic<size_t>& least = least_[charges == RDM_CHARGES_USER];
  size_t known = least.load(std::memory_order_relaxed);
  while (bytes < known && !least.compare_exchange_weak(known, bytes)) {
  }
}

void Retries::note_room() {
  for (const int charges : {RDM_CHARGES_PROCESS, RDM_CHARGES_USER}) {
    const size_t least = least_[charges == RDM_CHARGES_USER].load();
    if (least == SIZE_MAX || account_->shortfall(charges, least) != 0) continue;
    (void)wake_(context_, false);
    return;
  }
}

void Retries::note_event() {
  all_due_ = true;
  asked_ = false;
  (void)wake_(context_, false);
}

void Retries::ask() {
  if (asked_.load(std::memory_order_relaxed) || asked_.exchange(true)) return;
  if (!wake_(context_, true)) asked_ = false;
}

// Whoever is still waiting says so again during the round.
bool Retries::begin_round() {
  asked_ = false;
  for (std::atomic<size_t>& least : least_) least = SIZE_MAX;
  return all_due_.exchange(false);
}

void Retries::note_fork_child() {
  (void)begin_round();
  looked_at_ = 0;
}

}  // namespace rdmalloc
