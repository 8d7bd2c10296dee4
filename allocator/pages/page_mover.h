// Moves pages to other addresses through the kernel's page tables, so that they keep their bytes,
// their locks and their NUMA node. Or gives them to the kernel. The addresses they leave are
// retired: reserved permanently, never handed out again.
//
// Runs inside malloc; one move at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/pages/mappings.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/region_table.h"

namespace rdmalloc {

class PageMover {
 public:
  constexpr PageMover(RegionTable& regions, PageMarks& marks)
      : regions_(regions), marks_(marks), mappings_(marks) {}
  PageMover(const PageMover&) = delete;
  PageMover& operator=(const PageMover&) = delete;

  // What is moved from now on goes to `to`, each piece behind the one before, until end(), which
  // returns how many bytes were moved.
  void begin(uintptr_t to, bool is_locked) REQUIRES(growth_lock);
  size_t end() REQUIRES(growth_lock);

  // Moves pages of one region, the first ones first. Returns how many bytes: fewer if the kernel
  // refused the rest, which stays where it is. `left`: the region that lost them, if any were
  // moved.
  size_t move(uintptr_t address, size_t size, Region** left) REQUIRES(growth_lock);

  // Gives pages of one region, which move() could have moved, to the kernel. False: it refused, and
  // nothing happened.
  bool give_up(uintptr_t address, size_t size, Region** left) REQUIRES(growth_lock);

  // True when some of what was moved last could not be locked again.
  bool lost_locks() const REQUIRES(growth_lock) { return lost_locks_; }

  // Of the whole window.
  constexpr Mappings& mappings() { return mappings_; }

  // Bytes since the start.
  size_t moved_bytes() const { return moved_.load(std::memory_order_relaxed); }
  size_t given_up_bytes() const { return given_up_.load(std::memory_order_relaxed); }

 private:
  size_t move_mapping(uintptr_t from, size_t size, uintptr_t to) REQUIRES(growth_lock);
  void lock_again(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void announce(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void recall(uintptr_t address, size_t size) REQUIRES(growth_lock);
  Region* retire(uintptr_t address, size_t size) REQUIRES(growth_lock);

  RegionTable& regions_;
  PageMarks& marks_;
  Mappings mappings_;
  uintptr_t start_ GUARDED_BY(growth_lock) = 0;  // of where what is moved goes
  uintptr_t end_ GUARDED_BY(growth_lock) = 0;
  bool unlocks_ GUARDED_BY(growth_lock) = false;
  bool lost_locks_ GUARDED_BY(growth_lock) = false;
  std::atomic<size_t> moved_{0};
  std::atomic<size_t> given_up_{0};
};

}  // namespace rdmalloc
