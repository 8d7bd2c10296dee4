#include "regcache/foreign/monitor/userfaultfd.h"

#include <errno.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "allocator/os/clock.h"
#include "allocator/os/futex.h"
#include "allocator/os/memory.h"
#include "allocator/os/system_call.h"
#include "allocator/os/thread.h"

namespace rdmalloc {
namespace {

constinit UserfaultfdMonitor monitor;

// Each watched range may split a mapping in three, and the kernel limits the number of mappings
// (65530).
constexpr int kMostWatched = 16384;
constexpr unsigned kGranuleShift = 16;
constexpr uint64_t kLookNs = 1'000'000'000;
// Longer than a thread that was woken is likely to wait to be scheduled.
constexpr uint64_t kDropNs = 100'000'000;

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14

constexpr const char* kNoThread = "no thread can be started that reads what the kernel tells";

thread_local constinit bool is_thread_of_ours = false;

// While this is on, no thread wakes up periodically. Kept across fork; the child's monitor is new.
constinit os::MainThreadWatch main_thread;

}  // namespace

const char* UserfaultfdMonitor::why() const noexcept { return kernel_.what(); }

template <void (UserfaultfdMonitor::*run)()>
int UserfaultfdMonitor::start_thread(pthread_t* thread, const char* thread_name) {
  const auto begin = [](void* self) -> void* {
    (static_cast<UserfaultfdMonitor*>(self)->*run)();
    return nullptr;
  };
  return os::start_thread(thread, thread_name, 0, begin, this);
}

const char* UserfaultfdMonitor::start() {
  started_.is_there.store(0, std::memory_order_relaxed);
  refusal_ = kNoThread;
  if (start_thread<&UserfaultfdMonitor::keep>(&keeper_, "rdmalloc-uffd") != 0) return refusal_;
  while (started_.is_there.load(std::memory_order_acquire) == 0) {
    os::wait_while(started_.is_there, 0);
  }
  if (refusal_ != nullptr) {
    pthread_join(keeper_, nullptr);
    return refusal_;
  }
  // Nothing is watched yet, so nothing can be missed before this starts; the other two threads wait
  // for work without a time limit.
  main_thread.start([](void* self) { static_cast<UserfaultfdMonitor*>(self)->wake_teller(); },
                    this);
  if (start_thread<&UserfaultfdMonitor::tell_events>(&teller_, "rdmalloc-tell") != 0) {
    return kNoThread;
  }
  changes.attach_late(this);
  return nullptr;
}

void UserfaultfdMonitor::wake_teller() {
  news_.fetch_add(1, std::memory_order_release);
  os::wake_all(news_);
}

bool UserfaultfdMonitor::watch(uintptr_t base, size_t length) noexcept {
  note_watched(base, length);
  // Watching splits a mapping. Parts that are first touched after the split can never merge again,
  // and the kernel refuses to mremap() several at once. So one page is touched before.
  (void)os::system_call(SYS_madvise, os::page_floor(base), os::page_size(), kPopulateWrite);
  const bool has_room = watched_.load(std::memory_order_relaxed) < kMostWatched;
  return has_room && ask(Request::kWatch, base, length) == 0;
}

// If the queue has no room, the range stays watched; unmapping it then costs an event.
void UserfaultfdMonitor::unwatch(uintptr_t base, size_t length) noexcept {
  (void)put({Request::kUnwatch, base, length, nullptr});
}

void UserfaultfdMonitor::note_watched(uintptr_t base, size_t length) {
  const uintptr_t last = (base + length - 1) >> kGranuleShift;
  for (uintptr_t granule = base >> kGranuleShift; granule <= last; ++granule) {
    const size_t place = granule % kEverBits;
    ever_watched_[place / 64].fetch_or(uint64_t{1} << place % 64, std::memory_order_seq_cst);
  }
}

bool UserfaultfdMonitor::was_watched(uintptr_t base, size_t length) const {
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (base + length - 1) >> kGranuleShift;
  if (length == 0 || last < first || last - first >= kEverBits) return length != 0;
  for (uintptr_t granule = first; granule <= last; ++granule) {
    const size_t place = granule % kEverBits;
    const uint64_t bits = ever_watched_[place / 64].load(std::memory_order_seq_cst);
    if ((bits >> place % 64 & 1) != 0) return true;
  }
  return false;
}

void UserfaultfdMonitor::let_go(uintptr_t base, size_t length) noexcept {
  if (!is_thread_of_ours && was_watched(base, length)) (void)ask(Request::kLetGo, base, length);
}

// The threads exist only in the parent, and their descriptor with them.
void UserfaultfdMonitor::note_fork_child() noexcept {
  main_thread.note_fork_child();
  new (this) UserfaultfdMonitor;
}

bool UserfaultfdMonitor::put(const Request& request) {
  pthread_mutex_lock(&mutex_);
  const bool has_room = count_ < kMostRequests;
  if (has_room) requests_[(first_ + count_++) % kMostRequests] = request;
  pthread_mutex_unlock(&mutex_);
  if (has_room) wake_keeper();
  return has_room;
}

// Returns the keeper's answer: 0 or an errno.
int UserfaultfdMonitor::ask(Request::Kind kind, uintptr_t base, size_t length) {
  Answer answer;
  if (!put({kind, base, length, &answer})) return EAGAIN;
  while (answer.is_there.load(std::memory_order_acquire) == 0) {
    os::wait_while(answer.is_there, 0);
  }
  return answer.error;
}

void UserfaultfdMonitor::wake_keeper() {
  work_.fetch_add(1, std::memory_order_seq_cst);
  os::wake_all(work_);
}

void UserfaultfdMonitor::wait_until_told() noexcept {
  if (!is_thread_of_ours) changes.wait_until_told();
}

void UserfaultfdMonitor::settle() noexcept {
  if (is_thread_of_ours) return;
  const uint32_t asked = settles_asked_.fetch_add(1, std::memory_order_seq_cst) + 1;
  wake_keeper();
  for (;;) {
    const uint32_t done = settles_done_.load(std::memory_order_acquire);
    if (static_cast<int32_t>(done - asked) >= 0) break;
    os::wait_while(settles_done_, done);
  }
  changes.wait_until_told();
}

bool UserfaultfdMonitor::begin() {
  // Start with an empty descriptor table of our own; the program's descriptors stay open in its.
  if (syscall(SYS_close_range, 0U, ~0U, CLOSE_RANGE_UNSHARE) != 0) {
    refusal_ = "the kernel gives threads no descriptors of their own (Linux 5.9 does)";
    return false;
  }
  refusal_ = kernel_.open();
  if (refusal_ != nullptr) return false;
  // This thread shares the keeper's descriptors.
  if (start_thread<&UserfaultfdMonitor::read_events>(&reader_, "rdmalloc-event") == 0) return true;
  refusal_ = kNoThread;
  kernel_.close();
  return false;
}

void UserfaultfdMonitor::keep() {
  is_thread_of_ours = true;
  const bool begun = begin();
  started_.is_there.store(1, std::memory_order_release);
  os::wake_all(started_.is_there);
  while (begun) {
    const uint32_t seen = work_.load(std::memory_order_seq_cst);
    answer_settlers();
    Request request;
    if (take(&request)) {
      serve(request);
    } else {
      os::wait_while(work_, seen);
    }
  }
}

void UserfaultfdMonitor::answer_settlers() {
  const uint32_t asked = settles_asked_.load(std::memory_order_seq_cst);
  if (asked == settles_done_.load(std::memory_order_relaxed)) return;
  while (kernel_.is_changing()) sched_yield();
  settles_done_.store(asked, std::memory_order_release);
  os::wake_all(settles_done_);
}

bool UserfaultfdMonitor::take(Request* request) {
  pthread_mutex_lock(&mutex_);
  const bool is_any = count_ > 0;
  if (is_any) {
    *request = requests_[first_];
    first_ = (first_ + 1) % kMostRequests;
    --count_;
  }
  pthread_mutex_unlock(&mutex_);
  return is_any;
}

int UserfaultfdMonitor::watch_now(uintptr_t base, size_t length) {
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
void UserfaultfdMonitor::serve(const Request& request) {
  const uintptr_t from = os::page_floor(request.base);
  const uintptr_t to = os::page_ceil(request.base + request.length);
  int error = 0;
  if (request.kind == Request::kWatch) {
    // Do not watch a range that is about to change and was let go for that: it would not be kept
    // anyway.
    error = changes.is_announced(from, to) ? EBUSY : watch_now(request.base, request.length);
    if (error == 0) watched_.fetch_add(1, std::memory_order_relaxed);
  } else if (request.kind == Request::kLetGo || changes.sink() == nullptr ||
             !changes.sink()->is_cached(from, to)) {
    error = kernel_.unwatch(from, to - from);
    if (error == 0) watched_.fetch_sub(1, std::memory_order_relaxed);
  }
  if (request.answer == nullptr) return;
  request.answer->error = error;
  request.answer->is_there.store(1, std::memory_order_release);
  os::wake_all(request.answer->is_there);
}

void UserfaultfdMonitor::read_events() {
  is_thread_of_ours = true;
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

void UserfaultfdMonitor::tell_events() {
  is_thread_of_ours = true;
  for (;;) {
    const uint32_t seen = news_.load(std::memory_order_acquire);
    end_drops();
    const uint32_t count = batch_count_.load(std::memory_order_acquire);
    if (count == 0) {
      wait_for_news(seen);
      continue;
    }
    for (size_t i = 0; i < count; ++i) tell(batch_[i]);
    changes.go_on();
    batch_count_.store(0, std::memory_order_release);
    os::wake_all(batch_count_);
  }
}

// Wakes up by time only while drops are in progress, or if the main thread has ended or its end is
// not reported: libc does not end a process that still has our threads.
void UserfaultfdMonitor::wait_for_news(uint32_t seen) {
  if (drops_ != 0) return os::wait_while_for(news_, seen, kDropNs);
  if (main_thread.is_on()) return os::wait_while(news_, seen);
  if (os::is_only_ours_left()) exit(0);
  os::wait_while_for(news_, seen, kLookNs);
}

void UserfaultfdMonitor::tell(const KernelEvent& event) {
  switch (event.kind) {
    case KernelEvent::kNothing:
      return;
    case KernelEvent::kDropping:
      expect_drop(event);
      break;
    case KernelEvent::kMoved:
      // After the move, the kernel watches the range at its new address.
      unwatch(event.target, event.end - event.base);
      break;
    case KernelEvent::kUnmapped:
      if (watched_.load(std::memory_order_relaxed) > 0) {
        watched_.fetch_sub(1, std::memory_order_relaxed);
      }
      break;
  }
  changes.tell(event.base, event.end);
}

// A thread that came through the interposed functions has announced the drop itself, and knows
// better when it is over. Where this monitor announced an earlier drop itself, it goes on
// announcing.
void UserfaultfdMonitor::expect_drop(const KernelEvent& event) {
  bool is_ours = false;
  for (Dropping& one : droppings_) {
    if (one.until == 0 || one.base >= event.end || event.base >= one.end) continue;
    is_ours = true;
    if (one.base > event.base || event.end > one.end) continue;
    one.until = os::now_ns() + kDropNs;
    return;
  }
  if (!is_ours && changes.is_announced(event.base, event.end)) return;
  Dropping* place = &droppings_[0];
  for (Dropping& one : droppings_) {
    if (one.until < place->until) place = &one;
  }
  uintptr_t base = event.base;
  uintptr_t end = event.end;
  if (place->until != 0) {
    // No slot is free: one announcement covers both ranges.
    base = place->base < base ? place->base : base;
    end = place->end > end ? place->end : end;
    place->change()->~Change();
    --drops_;
  }
  ++drops_;
  new (place->storage) Change(reinterpret_cast<void*>(base), end - base);
  place->base = base;
  place->end = end;
  place->until = os::now_ns() + kDropNs;
}

void UserfaultfdMonitor::end_drops() {
  if (drops_ == 0) return;
  const uint64_t now = os::now_ns();
  for (Dropping& one : droppings_) {
    if (one.until == 0 || one.until > now) continue;
    one.change()->~Change();
    one.until = 0;
    --drops_;
  }
}

Monitor* start_userfaultfd_monitor(const char** why) {
  const char* const refusal = monitor.start();
  *why = refusal != nullptr ? refusal : monitor.why();
  return refusal == nullptr ? &monitor : nullptr;
}

}  // namespace rdmalloc
