#include "regcache/foreign/monitor/changes.h"

#include "allocator/os/futex.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/thread.h"

namespace rdmalloc {

constinit Changes changes;

void Changes::tell(uintptr_t base, uintptr_t end) {
  if (base >= end || !counts_.may_have(base, end)) return;
  ChangeSink* const told = sink();
  if (told == nullptr) return;
  os::NoCancel no_cancel;
  told->on_change(base, end);
}

void Changes::catch_up(uintptr_t base, uintptr_t end) const {
  LateMonitor* const monitor = late();
  if (monitor == nullptr || base >= end || !counts_.may_have(base, end)) return;
  const os::KeepErrno keep;
  if (ChangeSink* const asked = sink(); asked != nullptr && asked->is_cached(base, end)) {
    monitor->catch_up();
  }
}

void Changes::go_on() {
  if (held_up_.fetch_sub(1, std::memory_order_seq_cst) == 1) os::wake_all(held_up_);
}

void Changes::wait_until_told() const {
  for (;;) {
    const uint32_t held_up = held_up_.load(std::memory_order_acquire);
    if (held_up == 0) return;
    os::wait_while(held_up_, held_up);
  }
}

// The threads that held it exist only in the parent, and nothing is registered here.
void Changes::note_fork_child() {
  held_up_ = 0;
  late_ = nullptr;
  counts_.clear();
  announcements_.clear();
}

void Change::begin(const void* base, size_t length, Kind kind) {
  const auto from = reinterpret_cast<uintptr_t>(base);
  const uintptr_t end = length <= UINTPTR_MAX - from ? from + length : UINTPTR_MAX;
  if (from >= end) return;
  const os::KeepErrno keep;
  made_ = true;
  slot_ = changes.announcements().announce(from, end);
  if (kind == kTold) changes.tell(from, end);
}

void Change::end() { changes.announcements().withdraw(slot_); }

}  // namespace rdmalloc
