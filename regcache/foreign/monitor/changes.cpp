#include "regcache/foreign/monitor/changes.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "allocator/os/futex.h"
#include "allocator/os/keep_errno.h"
#include "allocator/os/thread.h"

namespace rdmalloc {

constinit Changes changes;

void Changes::count_in(uintptr_t base, uintptr_t end) {
  if (!has_counted_.load(std::memory_order_acquire)) has_counted_ = true;
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (end - 1) >> kGranuleShift;
  if (last - first >= kMostGranules) {
    long_ranges_.fetch_add(1, std::memory_order_seq_cst);
  } else {
    for (uintptr_t granule = first; granule <= last; ++granule) {
      counts_[place_of(granule)].fetch_add(1, std::memory_order_seq_cst);
    }
  }
}

void Changes::count_out(uintptr_t base, uintptr_t end) {
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
  if (!has_counted_.load(std::memory_order_seq_cst)) return false;
  if (long_ranges_.load(std::memory_order_seq_cst) != 0) return true;
  const uintptr_t first = base >> kGranuleShift;
  const uintptr_t last = (end - 1) >> kGranuleShift;
  const auto is_counted = [](const std::atomic<uint16_t>& count) {
    return count.load(std::memory_order_seq_cst) != 0;
  };
  if (last - first >= kMostGranules) return std::any_of(counts_, std::end(counts_), is_counted);
  for (uintptr_t granule = first; granule <= last; ++granule) {
    if (is_counted(counts_[place_of(granule)])) return true;
  }
  return false;
}

Changes::Announcement* Changes::announce(uintptr_t base, uintptr_t end) {
  const uint64_t first = base >> kPageShift;
  const uint64_t count = ((end - 1) >> kPageShift) + 1 - first;
  if (count > kMostPages || first >> (64 - kLengthBits) != 0) return nullptr;
  // Threads start at different slots, chosen by their stack address.
  const size_t start = (reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) >> 21);
  for (size_t i = 0; i < kAnnouncements; ++i) {
    const size_t chosen = (start + i) % kAnnouncements;
    const uint64_t bit = uint64_t{1} << chosen;
    if ((announced_.load(std::memory_order_acquire) & bit) == 0) {
      announced_.fetch_or(bit, std::memory_order_seq_cst);
    }
    Announcement& place = announcements_[chosen];
    uint64_t free = 0;
    if (place.pages.load(std::memory_order_relaxed) == 0 &&
        place.pages.compare_exchange_strong(free, first << kLengthBits | count,
                                            std::memory_order_seq_cst)) {
      return &place;
    }
  }
  return nullptr;
}

bool Changes::is_announced(uintptr_t base, uintptr_t end) const {
  if (unannounced_.load(std::memory_order_seq_cst) != 0) return true;
  uint64_t left = announced_.load(std::memory_order_seq_cst);
  for (; left != 0; left &= left - 1) {
    const Announcement& place = announcements_[std::countr_zero(left)];
    const uint64_t pages = place.pages.load(std::memory_order_seq_cst);
    if (pages == 0) continue;
    const uint64_t first = pages >> kLengthBits;
    const uint64_t after = first + (pages & kMostPages);
    if (first << kPageShift < end && base < after << kPageShift) return true;
  }
  return false;
}

void Changes::tell(uintptr_t base, uintptr_t end) {
  if (base >= end || !may_be_cached(base, end)) return;
  ChangeSink* const told = sink();
  if (told == nullptr) return;
  os::NoCancel no_cancel;
  told->on_change(base, end);
}

void Changes::catch_up(uintptr_t base, uintptr_t end) const {
  LateMonitor* const monitor = late();
  if (monitor == nullptr || base >= end || !may_be_cached(base, end)) return;
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
  has_counted_ = false;
  long_ranges_ = 0;
  unannounced_ = 0;
  announced_ = 0;
  late_ = nullptr;
  for (Announcement& place : announcements_) place.pages = 0;
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
  announcement_ = changes.announce(from, end);
  if (announcement_ == nullptr) changes.unannounced_.fetch_add(1, std::memory_order_seq_cst);
  if (kind == kTold) changes.tell(from, end);
}

void Change::end() {
  if (announcement_ != nullptr) {
    announcement_->pages.store(0, std::memory_order_release);
  } else {
    changes.unannounced_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace rdmalloc
