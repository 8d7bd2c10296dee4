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

  // What is moved from now on goes to this region, which is not published yet: each piece behind
  // the one before, until end(), which returns how many bytes were moved.
  void begin(const Region& to) REQUIRES(growth_lock);
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
  template <typename Unused>
  void drop_tables(uintptr_t from, uintptr_t end, size_t reach, Unused is_unused)
      REQUIRES(growth_lock);
  void drop_page_tables(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void drop_upper_tables(const Region& region) REQUIRES(growth_lock);
  bool is_target(uintptr_t address, size_t size) const REQUIRES(growth_lock);

  RegionTable& regions_;
  PageMarks& marks_;
  Mappings mappings_;
  Region to_ GUARDED_BY(growth_lock);          // where what is moved goes
  uintptr_t end_ GUARDED_BY(growth_lock) = 0;  // of what was moved there
  bool unlocks_ GUARDED_BY(growth_lock) = false;
  bool lost_locks_ GUARDED_BY(growth_lock) = false;
  std::atomic<size_t> moved_{0};
  std::atomic<size_t> given_up_{0};
};

}  // namespace rdmalloc
