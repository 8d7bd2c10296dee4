#include "regcache/monitor/changes.h"

#include <pthread.h>

#include "allocator/os/futex.h"
#include "allocator/os/keep_errno.h"

namespace rdmalloc {

constinit Changes changes;

namespace {

constexpr uintptr_t kTaken = 1;

}  // namespace

void Changes::count_in(uintptr_t base, uintptr_t end) {
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (end - 1) >> kGranuleShift;
  if (last - first >= kMostGranules) {
    long_ranges_.fetch_add(1, std::memory_order_seq_cst);
  } else {
    for (uintptr_t granule = first; granule <= last; ++granule) {
      counts_[place_of(granule)].fetch_add(1, std::memory_order_seq_cst);
    }
  }
  counted_in_.fetch_add(1, std::memory_order_seq_cst);
}

void Changes::count_out(uintptr_t base, uintptr_t end) {
  counted_in_.fetch_sub(1, std::memory_order_relaxed);
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (end - 1) >> kGranuleShift;
  if (last - first >= kMostGranules) {
    long_ranges_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  for (uintptr_t granule = first; granule <= last; ++granule) {
    counts_[place_of(granule)].fetch_sub(1, std::memory_order_relaxed);
  }
}

bool Changes::may_be_cached(uintptr_t base, uintptr_t end) const {
  if (counted_in_.load(std::memory_order_seq_cst) == 0) return false;
  if (long_ranges_.load(std::memory_order_seq_cst) != 0) return true;
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (end - 1) >> kGranuleShift;
  if (last - first >= kMostGranules) return true;
  for (uintptr_t granule = first; granule <= last; ++granule) {
    if (counts_[place_of(granule)].load(std::memory_order_seq_cst) != 0) return true;
  }
  return false;
}

Changes::Announcement* Changes::announce(uintptr_t base, uintptr_t end) {
  // Threads start looking at different places: by their stacks.
  const size_t start = (reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) >> 21);
  for (size_t i = 0; i < kAnnouncements; ++i) {
    Announcement& place = announcements_[(start + i) % kAnnouncements];
    uintptr_t free = 0;
    if (place.end.load(std::memory_order_relaxed) != 0 ||
        !place.end.compare_exchange_strong(free, kTaken, std::memory_order_acquire)) {
      continue;
    }
    place.base.store(base, std::memory_order_relaxed);
    place.end.store(end, std::memory_order_seq_cst);
    return &place;
  }
  return nullptr;
}

bool Changes::is_announced(uintptr_t base, uintptr_t end) const {
  if (unannounced_.load(std::memory_order_seq_cst) != 0) return true;
  for (const Announcement& place : announcements_) {
    const uintptr_t its_end = place.end.load(std::memory_order_seq_cst);
    // One that is taken but not announced yet will look at what is counted in after it announces.
    if (its_end > base && place.base.load(std::memory_order_relaxed) < end) return true;
  }
  return false;
}

void Changes::tell(uintptr_t base, uintptr_t end) {
  if (base >= end || !may_be_cached(base, end)) return;
  if (ChangeSink* const told = sink()) told->on_change(base, end);
}

void Changes::settle(uintptr_t base, uintptr_t end) const {
  void (*const settler)() = settler_.load(std::memory_order_acquire);
  if (settler != nullptr && base < end && may_be_cached(base, end)) settler();
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

// Threads that were at it are gone, and nothing is registered here.
void Changes::note_fork_child() {
  held_up_ = 0;
  counted_in_ = 0;
  long_ranges_ = 0;
  unannounced_ = 0;
  settler_ = nullptr;
  for (Announcement& place : announcements_) place.end = 0;
  for (std::atomic<uint16_t>& count : counts_) {
    if (count.load(std::memory_order_relaxed) != 0) count = 0;
  }
}

void Change::begin(const void* base, size_t length, Kind kind) {
  const auto from = reinterpret_cast<uintptr_t>(base);
  const uintptr_t end = length <= UINTPTR_MAX - from ? from + length : UINTPTR_MAX;
  if (from >= end) return;
  const os::KeepErrno keep;
  made_ = true;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  announcement_ = changes.announce(from, end);
  if (announcement_ == nullptr) changes.unannounced_.fetch_add(1, std::memory_order_seq_cst);
  if (kind == kTold) changes.tell(from, end);
}

void Change::end() {
  if (announcement_ != nullptr) {
    announcement_->end.store(0, std::memory_order_release);
  } else {
    changes.unannounced_.fetch_sub(1, std::memory_order_release);
  }
  pthread_setcancelstate(cancel_state_, nullptr);
}

}  // namespace rdmalloc
