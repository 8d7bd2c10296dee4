#include "allocator/limits/pin_limit.h"

#include <algorithm>

#include "allocator/os/memory.h"

namespace rdmalloc {

const char* name(LimitedBy by) {
  switch (by) {
    case LimitedBy::kCap:
      return "cap";
    case LimitedBy::kMemlock:
      return "memlock";
    case LimitedBy::kAvailable:
      return "available";
    case LimitedBy::kMachine:
      return "node";
  }
  return "?";
}

void PinLimit::boot(const Options& options) {
  lockable_.boot(options.amount(OptionId::headroom));
  cap_ = options.amount(OptionId::cap);
}

void PinLimit::set(const os::LockLimit& limit) {
  lockable_.set(limit);
  find();
}

void PinLimit::set_share(uint64_t bytes) {
  share_of_machine_ = bytes;
  find();
}

void PinLimit::look() {
  if (lockable_.has_other_soft_limit() && lockable_.update(os::lock_limit())) find();
}

void PinLimit::look_closely(size_t need) {
  if (lockable_.is_refused()) find();
  if (left() >= need || by_ != LimitedBy::kMemlock) return;
  if (lockable_.update(os::lock_limit())) find();
}

void PinLimit::note_refusal(size_t bytes) {
  lockable_.note_refusal();
  find();
  lockable_.set_refused_for_good(left() >= bytes);
  find();
}

void PinLimit::find() {
  const uint64_t own = cap_.resolve(memory_.total(), lockable_.memlock());
  const uint64_t cap = std::min(own, share_of_machine_);
  const uint64_t lockable = lockable_.bytes();
  by_ = share_of_machine_ < own ? LimitedBy::kMachine : LimitedBy::kCap;
  if (lockable < cap) by_ = LimitedBy::kMemlock;
  bytes_ = std::max<uint64_t>(os::page_floor(std::min(lockable, cap)), charges_.pinned());
  note_own();
}

}  // namespace rdmalloc
