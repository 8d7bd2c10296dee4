// The kernel's page size, known only here. x86-64 has one size; AArch64's kernels are built for 4,
// 16 or 64 KiB, and the library runs on any. Usable anywhere: inside malloc, before libc is
// initialised, in a forked child.
#pragma once

#include <cstddef>
#include <cstdint>
#if !defined(__x86_64__)
#include <sys/auxv.h>

#include <atomic>
#endif

namespace rdmalloc::os {

#if defined(__x86_64__)
constexpr unsigned page_shift() { return 12; }
constexpr size_t page_size() { return size_t{1} << page_shift(); }
#else
// Its logarithm: the compiler turns multiplication and division by `1 << shift` into shifts.
// Relaxed: a thread that does not see it yet computes the same value.
inline std::atomic<unsigned> known_page_shift{0};

[[gnu::cold, gnu::noinline]] inline unsigned find_page_shift() {
  const auto shift = static_cast<unsigned>(__builtin_ctzl(getauxval(AT_PAGESZ)));
  known_page_shift.store(shift, std::memory_order_relaxed);
  return shift;
}

inline unsigned page_shift() {
  const unsigned shift = known_page_shift.load(std::memory_order_relaxed);
  return shift != 0 ? shift : find_page_shift();
}
inline size_t page_size() { return size_t{1} << page_shift(); }
#endif

// Rounds to a multiple of `unit`, a power of two. Rounding up within a unit of SIZE_MAX gives 0.
constexpr size_t align_up(size_t value, size_t unit) { return (value + unit - 1) & ~(unit - 1); }
constexpr size_t align_down(size_t value, size_t unit) { return value & ~(unit - 1); }
inline size_t page_ceil(size_t bytes) { return align_up(bytes, page_size()); }
inline size_t page_floor(size_t bytes) { return align_down(bytes, page_size()); }

// What one page table of eight-byte entries maps: 2 MiB with 4 KiB pages. The kernel's transparent
// huge pages have this size, where it has them.
inline size_t page_table_reach() { return page_size() / sizeof(uint64_t) * page_size(); }
// And a table of such tables: 1 GiB.
inline size_t upper_table_reach() { return page_size() / sizeof(uint64_t) * page_table_reach(); }

}  // namespace rdmalloc::os
