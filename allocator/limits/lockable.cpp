#include "allocator/limits/lockable.h"

namespace rdmalloc {

using os::less;

void Lockable::set(const os::LockLimit& limit) {
  soft_ = limit.soft;
  memlock_ = right_counts_ ? limit.effective() : limit.soft;
}

bool Lockable::update(const os::LockLimit& limit) {
  const uint64_t before = memlock();
  set(limit);
  if (memlock() == before) return false;
  is_refused_ = false;
  is_refused_for_good_ = false;
  return true;
}

bool Lockable::has_other_soft_limit() const { return os::soft_lock_limit() != soft_; }

// A capability that was refused does not count: it belongs to another user namespace.
void Lockable::note_refusal() {
  const os::LockLimit limit = os::lock_limit();
  is_refused_ = true;
  if (limit.unlimited_by_right) right_counts_ = false;
  set({limit.soft, limit.hard, false});
}

uint64_t Lockable::bytes() const {
  if (is_refused_for_good_) return 0;
  const uint64_t memlock = this->memlock();
  const uint64_t headroom = headroom_.resolve(memory_.total(), memlock);
  const uint64_t own = memlock == os::kNoLimit ? memlock : less(memlock, headroom);
  return is_refused_ ? less(own, less(os::locked_memory(), charges_.pinned())) : own;
}

}  // namespace rdmalloc
