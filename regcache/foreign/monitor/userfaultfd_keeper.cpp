#include "regcache/foreign/monitor/userfaultfd_keeper.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "allocator/os/memory.h"
#include "allocator/os/newer_headers.h"
#include "regcache/foreign/monitor/changes.h"
#include "regcache/foreign/monitor/userfaultfd_thread.h"

namespace rdmalloc {

const char* UserfaultfdKeeper::start() {
  started_.is_there.store(0, std::memory_order_relaxed);
  if (start_userfaultfd_thread<&UserfaultfdKeeper::run>(&thread_, "rdmalloc-uffd", this) != 0) {
    return kNoThread;
  }
  (void)started_.wait();
  if (refusal_ != nullptr) pthread_join(thread_, nullptr);
  return refusal_;
}

const char* UserfaultfdKeeper::begin() {
  // Start with an empty descriptor table of our own; the program's descriptors stay open in its.
  if (syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE) != 0) {
    return "the kernel gives threads no descriptors of their own (Linux 5.9 does)";
  }
  if (const char* const refusal = kernel_.open(); refusal != nullptr) return refusal;
  // The reader shares this thread's descriptors.
  if (events_.start_reader()) return nullptr;
  kernel_.close();
  return kNoThread;
}

void UserfaultfdKeeper::run() {
  refusal_ = begin();
  const bool has_begun = refusal_ == nullptr;
  started_.give(0);
  while (has_begun) {
    const uint32_t seen = requests_.work();
    answer_callers();
    UserfaultfdRequest request;
    if (requests_.take(&request)) {
      serve(request);
    } else {
      requests_.wait_for_work(seen);
    }
  }
}

void UserfaultfdKeeper::answer_callers() {
  uint32_t asked = 0;
  if (!requests_.has_callers(&asked)) return;
  while (kernel_.is_changing()) sched_yield();
  requests_.answer_callers(asked);
}

int UserfaultfdKeeper::watch_now(uintptr_t base, size_t length) {
  const uintptr_t from = os::page_floor(base);
  int error = kernel_.watch(from, os::page_ceil(base + length) - from);
  // hugetlb pages can only be watched whole, and may be of any size.
  for (size_t size = os::page_size(); error == EINVAL;) {
    size = os::next_hugetlb_page_size(size);
    if (size == 0) break;
    const uintptr_t whole = os::align_down(base, size);
    error = kernel_.watch(whole, os::align_up(base + length, size) - whole);
  }
  return error;
}

// Requests are served in order. If a range is watched again after an unwatch was requested, it is
// cached again by then, and the unwatch is dropped; or the unwatch comes first.
void UserfaultfdKeeper::serve(const UserfaultfdRequest& request) {
  const uintptr_t from = os::page_floor(request.base);
  const uintptr_t to = os::page_ceil(request.base + request.length);
  int error = 0;
  if (request.kind == UserfaultfdRequest::kWatch) {
    // Do not watch a range that is about to change and was let go for that: it would not be kept
    // anyway.
    error = changes.announcements().has_any_of(from, to) ? EBUSY
                                                         : watch_now(request.base, request.length);
    if (error == 0) watched_.count_in();
  } else if (request.kind == UserfaultfdRequest::kLetGo || changes.sink() == nullptr ||
             !changes.sink()->is_cached(from, to)) {
    error = kernel_.unwatch(from, to - from);
    if (error == 0) watched_.count_out();
  }
  if (request.answer != nullptr) request.answer->give(error);
}

}  // namespace rdmalloc
