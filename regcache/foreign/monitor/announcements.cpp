#include "regcache/foreign/monitor/announcements.h"

#include <bit>

namespace rdmalloc {

Announcements::Slot* Announcements::take(uintptr_t base, uintptr_t end) {
  const uint64_t first = base >> kPageShift;
  const uint64_t count = ((end - 1) >> kPageShift) + 1 - first;
  if (count > kMostPages || first >> (64 - kLengthBits) != 0) return nullptr;
  // Threads start at different slots, chosen by their stack address.
  const size_t start = (reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) >> 21);
  for (size_t i = 0; i < kMost; ++i) {
    const size_t chosen = (start + i) % kMost;
    const uint64_t bit = uint64_t{1} << chosen;
    if ((used_.load(std::memory_order_acquire) & bit) == 0) {
      used_.fetch_or(bit, std::memory_order_seq_cst);
    }
    Slot& slot = slots_[chosen];
    uint64_t free = 0;
    if (slot.pages.load(std::memory_order_relaxed) == 0 &&
        slot.pages.compare_exchange_strong(free, first << kLengthBits | count,
                                           std::memory_order_seq_cst)) {
      return &slot;
    }
  }
  return nullptr;
}

Announcements::Slot* Announcements::announce(uintptr_t base, uintptr_t end) {
  Slot* const slot = take(base, end);
  if (slot == nullptr) without_slot_.fetch_add(1, std::memory_order_seq_cst);
  return slot;
}

void Announcements::withdraw(Slot* slot) {
  if (slot != nullptr) {
    slot->pages.store(0, std::memory_order_release);
  } else {
    without_slot_.fetch_sub(1, std::memory_order_release);
  }
}

bool Announcements::has_any_of(uintptr_t base, uintptr_t end) const {
  if (without_slot_.load(std::memory_order_seq_cst) != 0) return true;
  uint64_t left = used_.load(std::memory_order_seq_cst);
  for (; left != 0; left &= left - 1) {
    const Slot& slot = slots_[std::countr_zero(left)];
    const uint64_t pages = slot.pages.load(std::memory_order_seq_cst);
    if (pages == 0) continue;
    const uint64_t first = pages >> kLengthBits;
    const uint64_t after = first + (pages & kMostPages);
    if (first << kPageShift < end && base < after << kPageShift) return true;
  }
  return false;
}

void Announcements::clear() {
  without_slot_ = 0;
  used_ = 0;
  for (Slot& slot : slots_) slot.pages = 0;
}

}  // namespace rdmalloc
