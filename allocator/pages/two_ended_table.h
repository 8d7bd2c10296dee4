// Memory for a table about the window's addresses, of which only what lies near the window's two
// ends is used: that becomes writable in steps, as the window is carved. So a window of any size
// costs a process what it uses of it, also where the kernel counts all that could be written
// (vm.overcommit_memory=2).
//
// cover() runs inside malloc. What is covered may be read and written from anywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/os/memory.h"
#include "allocator/status.h"

namespace rdmalloc {

class TwoEndedTable {
 public:
  constexpr TwoEndedTable() = default;
  TwoEndedTable(const TwoEndedTable&) = delete;
  TwoEndedTable& operator=(const TwoEndedTable&) = delete;

  // What is not covered reads as zero, or must not be read. Before there are threads.
  enum class Rest : uint8_t { kZero, kUnreadable };
  Status boot(size_t bytes, Rest rest) NO_THREAD_SAFETY_ANALYSIS;

  // Makes the bytes from `from` to `to` writable, and all between them and the nearer end. They
  // read as zero at first. False: no memory.
  bool cover(size_t from, size_t to) REQUIRES(growth_lock);

  bool covers(size_t from, size_t to) const REQUIRES(growth_lock) {
    return to <= from_ || from >= to_;
  }

  void* memory() const { return memory_; }
  // How much is covered.
  size_t bytes() const { return __atomic_load_n(&covered_, __ATOMIC_RELAXED); }

 private:
  char* memory_ = nullptr;
  // The table is covered but for this part.
  size_t from_ GUARDED_BY(growth_lock) = 0;
  size_t to_ GUARDED_BY(growth_lock) = 0;
  size_t covered_ = 0;
};

// The entries of a table from `first` to `last` tell of the addresses from `begin` to `end`, which
// nobody uses any more. Gives back the pages that hold no others, nor any of addresses for which
// is_unused(from, to) is false. told_by(entry) is the first address that an entry tells of.
template <typename ToldBy, typename IsUnused>
void give_back_entries(const void* first, const void* last, uintptr_t begin, uintptr_t end,
                       ToldBy told_by, IsUnused is_unused) REQUIRES(growth_lock) {
  const auto low = reinterpret_cast<uintptr_t>(first);
  const auto high = reinterpret_cast<uintptr_t>(last);
  uintptr_t from = os::page_floor(low);
  uintptr_t to = os::page_ceil(high);
  if (!is_unused(told_by(from), begin)) from = os::page_ceil(low);
  if (!is_unused(end, told_by(to))) to = os::page_floor(high);
  if (from < to) (void)os::discard(reinterpret_cast<void*>(from), to - from);
}

}  // namespace rdmalloc
