// Moves pages under other addresses by the kernel's page tables: their bytes, their locks and their
// place on a NUMA node stay. Or gives them to the kernel. The addresses they leave are retired:
// reserved for ever, never handed out again.
//
// Counts the kernel's mappings of the window, which may be an eighth of vm.max_map_count.
//
// Runs inside malloc; one move at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

class PageMover {
 public:
  constexpr PageMover(RegionTable& regions, PageMarks& marks) : regions_(regions), marks_(marks) {}
  PageMover(const PageMover&) = delete;
  PageMover& operator=(const PageMover&) = delete;

  // What is moved from now on goes to `to`, each piece behind the one before, until end(), which
  // returns how many bytes that were.
  void begin(uintptr_t to, bool is_locked) REQUIRES(growth_lock);
  size_t end() REQUIRES(growth_lock);

  // Moves pages of one region, the first ones first. Returns how many bytes: less where the kernel
  // refused the rest, which stays where it is. `left`: the region that has lost them, unless none.
  size_t move(uintptr_t address, size_t size, Region** left) REQUIRES(growth_lock);

  // Gives pages of one region to the kernel, which move() could have moved. False: it refused, and
  // nothing happened.
  bool give_up(uintptr_t address, size_t size, Region** left) REQUIRES(growth_lock);

  // Of what was moved last, some could not be locked again.
  bool lost_locks() const REQUIRES(growth_lock) { return lost_locks_; }

  // There is a new region, of what was moved last, if it is gathered, and so many bytes of new
  // pages at its end.
  void note_region(const Region& region, size_t fresh) REQUIRES(growth_lock);

  // A region of new pages is no more.
  void note_closed() REQUIRES(growth_lock) { borders_ -= 2; }

  // Mappings that there are, that there may be, and that a range has.
  size_t mappings() const REQUIRES(growth_lock) { return borders_; }
  size_t most_mappings() const REQUIRES(growth_lock);
  size_t count_mappings(uintptr_t address, size_t size) const REQUIRES(growth_lock);

  // Bytes, ever.
  size_t moved_bytes() const { return moved_.load(std::memory_order_relaxed); }
  size_t given_up_bytes() const { return given_up_.load(std::memory_order_relaxed); }

 private:
  size_t move_mapping(uintptr_t from, size_t size, uintptr_t to) REQUIRES(growth_lock);
  void lock_again(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void announce(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void recall(uintptr_t address, size_t size) REQUIRES(growth_lock);
  Region* retire(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void note_borders(const Region& region, uintptr_t from, uintptr_t to) REQUIRES(growth_lock);
  bool is_retired(uintptr_t address) const { return marks_.is_retired(address, 1); }

  RegionTable& regions_;
  PageMarks& marks_;
  // That regions may take; 0 until it is asked for.
  mutable size_t most_mappings_ GUARDED_BY(growth_lock) = 0;
  // Between mappings of the window's: as many as there are, and 1.
  size_t borders_ GUARDED_BY(growth_lock) = 0;
  uintptr_t start_ GUARDED_BY(growth_lock) = 0;  // of where what is moved goes
  uintptr_t end_ GUARDED_BY(growth_lock) = 0;
  bool unlocks_ GUARDED_BY(growth_lock) = false;
  bool lost_locks_ GUARDED_BY(growth_lock) = false;
  size_t moved_mappings_ GUARDED_BY(growth_lock) = 0;
  std::atomic<size_t> moved_{0};
  std::atomic<size_t> given_up_{0};
};

}  // namespace rdmalloc
