#include "allocator/limits/charges.h"

#include "allocator/breakage.h"

namespace rdmalloc {

std::atomic<size_t>& Charges::of(RegionKind kind) {
  switch (kind) {
    case RegionKind::kPinned:
      return pinned_;
    case RegionKind::kOverflow:
      return overflow_;
    case RegionKind::kSparse:
      break;
  }
  return sparse_;
}

void Charges::charge(RegionKind kind, size_t bytes) {
  held_ += bytes;
  if (RDM_BROKEN(budget_is_not_charged) && kind == RegionKind::kPinned) return;
  of(kind) += bytes;
  if (pinned() > peak_pinned()) peak_pinned_ = pinned();
}

void Charges::release(RegionKind kind, size_t bytes) {
  held_ -= bytes;
  of(kind) -= bytes;
}

void Charges::note_unlocked(size_t bytes) {
  pinned_ -= bytes;
  overflow_ += bytes;
}

void Charges::note_fork_child() {
  pinned_ = 0;
  peak_pinned_ = 0;
}

}  // namespace rdmalloc
