// The ranges of memory that are being changed now. Any thread, also inside malloc; no lock. If
// there is no room to announce a range, all memory counts as announced meanwhile.
// Constant-initialised.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"

namespace rdmalloc {

class Announcements {
 public:
  // A range in one word, so that one step takes the slot and announces the range: the number of its
  // first page, and in the low bits how many pages it has. Pages are 4 KiB here; larger pages of a
  // kernel are multiples of these. 0: free.
  struct alignas(os::kCacheLine) Slot {
    std::atomic<uint64_t> pages{0};
  };

  constexpr Announcements() = default;
  Announcements(const Announcements&) = delete;
  Announcements& operator=(const Announcements&) = delete;

  // From here on the range, which is not empty, is announced; for withdraw(). Null: there is no
  // room.
  Slot* announce(uintptr_t base, uintptr_t end);
  void withdraw(Slot* slot);

  // Some of the range is announced.
  bool has_any_of(uintptr_t base, uintptr_t end) const;

  // In the child of a fork.
  void clear();

 private:
  static constexpr size_t kMost = 64;  // a bit of used_ each
  static constexpr int kPageShift = 12;
  static constexpr int kLengthBits = 28;
  static constexpr uint64_t kMostPages = (uint64_t{1} << kLengthBits) - 1;

  Slot* take(uintptr_t base, uintptr_t end);

  std::atomic<uint32_t> without_slot_{0};  // ranges for which none was free or long enough
  std::atomic<uint64_t> used_{0};          // slots that were ever taken: the others need no look
  Slot slots_[kMost];
};

}  // namespace rdmalloc
