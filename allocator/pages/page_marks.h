// What is known of single pages of the window. Only gathering and the program's own system calls
// (ProgramHoles) write it.
//
//  retired  the page is gone, moved away or destroyed: nobody ever uses the address again
//  changed  by the program: it unmapped or replaced the page, if that is also retired; otherwise
//           the page cannot be read or written now, and no device can be given it
//  seam     a kernel mapping begins here, inside a region (Mappings)
//
// What is known of addresses that are used up takes no memory, so that a program may use up any
// number of them. Only pages that are, or were, in a region may be asked about.
//
// Read from anywhere, without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/page_bits.h"
#include "allocator/pages/region_table.h"
#include "allocator/pages/two_ended_table.h"
#include "allocator/pages/window.h"

namespace rdmalloc {

class PageMarks {
 public:
  constexpr PageMarks(const Window& window, const RegionTable& regions)
      : window_(window), regions_(regions), kept_(window), changed_(window), seams_(window) {}
  PageMarks(const PageMarks&) = delete;
  PageMarks& operator=(const PageMarks&) = delete;

  // Reserves the bits. Before there are threads.
  Status boot();

  // Makes the bits of a region usable before it is published. False: no memory.
  bool cover(const Region& region) REQUIRES(growth_lock) {
    return table_.cover(kept_.begin_of(region.base), kept_.end_of(region.end()));
  }
  size_t metadata_bytes() const { return table_.bytes(); }

  // A region is about to be published, or has lost all its pages.
  void add(const Region& region) REQUIRES(growth_lock);
  void forget(const Region& region) REQUIRES(growth_lock);

  void retire(uintptr_t address, size_t size) REQUIRES(growth_lock);
  // Marks pages as retired before the kernel is asked to move them, so that a thread that finds
  // them gone finds them retired. recall() undoes this if the kernel refused.
  void announce(uintptr_t address, size_t size) REQUIRES(growth_lock);
  void recall(uintptr_t address, size_t size) REQUIRES(growth_lock) { kept_.set(address, size); }
  // True when any page of the range is.
  bool is_retired(uintptr_t address, size_t size) const {
    return has_retired() && kept_.is_clear(address, size);
  }
  // The first page in the range that is retired, or that is not; the range's end if there is none.
  uintptr_t first_retired(uintptr_t address, uintptr_t end) const {
    return has_retired() ? kept_.first_clear(address, end) : end;
  }
  uintptr_t first_kept(uintptr_t address, uintptr_t end) const {
    return has_retired() ? kept_.first_set(address, end) : address;
  }

  // The window's, where regions have no page left, and the program made no hole. A region that is
  // about to be published may lie there.
  bool is_used_up(uintptr_t address, size_t size) const REQUIRES(growth_lock);
  // The same for much at a time, if there is no region at all. False also above 64 GiB, which would
  // take long to look at.
  bool is_vacant(uintptr_t address, size_t size) const REQUIRES(growth_lock);

  void set_changed(uintptr_t address, size_t size, bool changed) REQUIRES(growth_lock);
  bool is_changed(uintptr_t address, size_t size) const { return changed_.is_set(address, size); }
  // How often pages were changed: a caller that was refused pages checks again.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  // The same as above for pages that are retired or changed, which a device cannot have.
  bool has_hole(uintptr_t address, size_t size) const {
    return is_retired(address, size) || is_changed(address, size);
  }
  uintptr_t first_hole(uintptr_t address, uintptr_t end) const;
  uintptr_t first_whole(uintptr_t address, uintptr_t end) const;

  // Calls visit(from, to) for each run of pages in the range that are not retired, or that have no
  // hole. Under the locks that visit needs.
  template <typename Visit>
  void for_each_kept(uintptr_t address, uintptr_t end,
                     Visit visit) const NO_THREAD_SAFETY_ANALYSIS {
    for (uintptr_t at = address; at < end;) {
      const uintptr_t from = first_kept(at, end);
      at = first_retired(from, end);
      if (from != at) visit(from, at);
    }
  }
  template <typename Visit>
  void for_each_whole(uintptr_t address, uintptr_t end,
                      Visit visit) const NO_THREAD_SAFETY_ANALYSIS {
    for (uintptr_t at = address; at < end;) {
      const uintptr_t from = first_whole(at, end);
      at = first_hole(from, end);
      if (from != at) visit(from, at);
    }
  }

  // A retired page has none.
  PageBits& seams() { return seams_; }

 private:
  bool is_readable(uintptr_t address, size_t size) const REQUIRES(growth_lock);
  bool has_retired() const { return has_retired_.load(std::memory_order_acquire); }

  const Window& window_;
  const RegionTable& regions_;
  TwoEndedTable table_;
  PageBits kept_;  // pages that are not retired; from the first one that is
  PageBits changed_;
  PageBits seams_;
  std::atomic<bool> has_retired_{false};  // ever, any page
  std::atomic<uint64_t> changes_{0};
};

}  // namespace rdmalloc
