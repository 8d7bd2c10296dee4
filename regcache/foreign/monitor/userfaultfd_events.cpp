#include "regcache/foreign/monitor/userfaultfd_events.h"

#include <stdlib.h>

#include "allocator/os/futex.h"
#include "allocator/os/thread.h"
#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/monitor/userfaultfd_thread.h"

namespace rdmalloc {
namespace {

constexpr uint64_t kLookNs = 1'000'000'000;

// While this is on, no thread wakes up periodically. Kept across fork; the child's monitor is new.
constinit os::MainThreadWatch main_thread;

}  // namespace

bool UserfaultfdEvents::start_reader() {
  return start_userfaultfd_thread<&UserfaultfdEvents::read>(&reader_, "rdmalloc-event", this) == 0;
}

bool UserfaultfdEvents::start_teller() {
  main_thread.start([](void* self) { static_cast<UserfaultfdEvents*>(self)->wake_teller(); }, this);
  return start_userfaultfd_thread<&UserfaultfdEvents::tell>(&teller_, "rdmalloc-tell", this) == 0;
}

void UserfaultfdEvents::note_fork_child() { main_thread.note_fork_child(); }

void UserfaultfdEvents::wake_teller() {
  news_.fetch_add(1, std::memory_order_release);
  os::wake_all(news_);
}

void UserfaultfdEvents::read() {
  for (;;) {
    if (!kernel_.wait(-1)) continue;
    changes.hold_up();
    const size_t count = kernel_.read(batch_, kMostEvents);
    if (count == 0) {
      changes.go_on();
      continue;
    }
    events_.fetch_add(static_cast<uint32_t>(count), std::memory_order_relaxed);
    batch_count_.store(static_cast<uint32_t>(count), std::memory_order_release);
    wake_teller();
    while (const uint32_t left = batch_count_.load(std::memory_order_acquire)) {
      os::wait_while(batch_count_, left);
    }
  }
}

void UserfaultfdEvents::tell() {
  for (;;) {
    const uint32_t seen = news_.load(std::memory_order_acquire);
    drops_.end_due();
    const uint32_t count = batch_count_.load(std::memory_order_acquire);
    if (count == 0) {
      wait_for_news(seen);
      continue;
    }
    for (size_t i = 0; i < count; ++i) tell_one(batch_[i]);
    changes.go_on();
    batch_count_.store(0, std::memory_order_release);
    os::wake_all(batch_count_);
  }
}

// Wakes up by time only while drops are in progress, or if the main thread has ended or its end is
// not reported: libc does not end a process that still has our threads.
void UserfaultfdEvents::wait_for_news(uint32_t seen) {
  if (drops_.is_any()) return os::wait_while_for(news_, seen, UserfaultfdDrops::kNs);
  if (main_thread.is_on()) return os::wait_while(news_, seen);
  if (os::is_only_ours_left()) exit(0);
  os::wait_while_for(news_, seen, kLookNs);
}

void UserfaultfdEvents::tell_one(const KernelEvent& event) {
  switch (event.kind) {
    case KernelEvent::kNothing:
      return;
    case KernelEvent::kDropping:
      drops_.expect(event);
      break;
    case KernelEvent::kMoved:
      // After the move, the kernel watches the range at its new address.
      (void)requests_.put({UserfaultfdRequest::kUnwatch, event.target, event.end - event.base});
      break;
    case KernelEvent::kUnmapped:
      watched_.count_out_if_any();
      break;
  }
  changes.tell(event.base, event.end);
}

}  // namespace rdmalloc
