// Counts the kernel's mappings of the window, which may be an eighth of vm.max_map_count, and knows
// where they begin inside regions (seams): moving pages on both sides of a seam takes two calls.
//
// Runs inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/pages/page_marks.h"
#include "allocator/pages/region.h"

namespace rdmalloc {

class Mappings {
 public:
  explicit constexpr Mappings(PageMarks& marks) : marks_(marks) {}
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;

  // How many exist, may exist, and are in a range.
  size_t count() const REQUIRES(growth_lock) { return borders_; }
  size_t most() const REQUIRES(growth_lock);
  size_t count_in(uintptr_t address, size_t size) const REQUIRES(growth_lock);

  // The first seam behind the page at `from`, or the range's end.
  uintptr_t next_seam(uintptr_t from, uintptr_t end) const REQUIRES(growth_lock) {
    return marks_.seams().first_set(from + os::page_size(), end);
  }

  // Pages were moved here as one mapping, for the next gathered region; forget_moved() begins
  // another one.
  void note_moved(uintptr_t to) REQUIRES(growth_lock);
  void forget_moved() REQUIRES(growth_lock) { moved_ = 0; }

  // There is a new region, made of what was moved, if it is gathered, and of `fresh` bytes of new
  // pages at its end.
  void note_region(const Region& region, size_t fresh) REQUIRES(growth_lock);
  // A region of new pages is gone.
  void note_closed() REQUIRES(growth_lock) { borders_ -= 2; }
  // A part of a region is about to be retired. It merges into one mapping with retired or reserved
  // neighbours.
  void note_retired(const Region& region, uintptr_t from, uintptr_t to) REQUIRES(growth_lock);

 private:
  bool is_seam(uintptr_t address) const REQUIRES(growth_lock) {
    return marks_.seams().is_set(address, 1);
  }
  void add_seam(uintptr_t address) REQUIRES(growth_lock) {
    marks_.seams().set(address, os::page_size());
  }

  PageMarks& marks_;
  // The most that regions may use; 0 until it is first needed.
  mutable size_t most_ GUARDED_BY(growth_lock) = 0;
  // Borders between the window's mappings; there is one mapping more.
  size_t borders_ GUARDED_BY(growth_lock) = 0;
  size_t moved_ GUARDED_BY(growth_lock) = 0;
};

}  // namespace rdmalloc
