#include "regcache/foreign/monitor/userfaultfd.h"

#include <sys/syscall.h>

#include <new>

#include "allocator/os/memory.h"
#include "allocator/os/system_call.h"
#include "regcache/foreign/monitor/userfaultfd_thread.h"

namespace rdmalloc {
namespace {

constinit UserfaultfdMonitor monitor;

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14

}  // namespace

const char* UserfaultfdMonitor::why() const noexcept { return kernel_.what(); }

const char* UserfaultfdMonitor::start() {
  if (const char* const refusal = keeper_.start(); refusal != nullptr) return refusal;
  // Nothing is watched yet, so nothing can be missed before this starts; the other two threads wait
  // for work without a time limit.
  if (!events_.start_teller()) return UserfaultfdKeeper::kNoThread;
  changes.attach_late(this);
  return nullptr;
}

bool UserfaultfdMonitor::watch(uintptr_t base, size_t length) noexcept {
  watched_.note(base, length);
  // Watching splits a mapping. Parts that are first touched after the split can never merge again,
  // and the kernel refuses to mremap() several at once. So one page is touched before.
  (void)os::system_call(SYS_madvise, os::page_floor(base), os::page_size(), kPopulateWrite);
  return watched_.has_room() && requests_.ask(UserfaultfdRequest::kWatch, base, length) == 0;
}

// If the queue has no room, the range stays watched; unmapping it then costs an event.
void UserfaultfdMonitor::unwatch(uintptr_t base, size_t length) noexcept {
  (void)requests_.put({UserfaultfdRequest::kUnwatch, base, length});
}

void UserfaultfdMonitor::let_go(uintptr_t base, size_t length) noexcept {
  if (!is_userfaultfd_thread && watched_.may_have_been(base, length)) {
    (void)requests_.ask(UserfaultfdRequest::kLetGo, base, length);
  }
}

// The threads exist only in the parent, and their descriptor with them.
void UserfaultfdMonitor::note_fork_child() noexcept {
  UserfaultfdEvents::note_fork_child();
  new (this) UserfaultfdMonitor;
}

void UserfaultfdMonitor::wait_until_told() noexcept {
  if (!is_userfaultfd_thread) changes.wait_until_told();
}

void UserfaultfdMonitor::catch_up() noexcept {
  if (is_userfaultfd_thread) return;
  requests_.catch_up();
  changes.wait_until_told();
}

Monitor* start_userfaultfd_monitor(const char** why) {
  const char* const refusal = monitor.start();
  *why = refusal != nullptr ? refusal : monitor.why();
  return refusal == nullptr ? &monitor : nullptr;
}

}  // namespace rdmalloc
