// Turns a part of the window into a region: carves, opens, places and locks it, in this order. Its
// pages come later, by touch or all at once. Nobody else knows of the region yet; the caller
// publishes it.
//
// Runs inside malloc.
#pragma once

#include <cstddef>

#include "allocator/limits/budget.h"
#include "allocator/limits/options.h"
#include "allocator/pages/free_pages.h"
#include "allocator/pages/placement.h"
#include "allocator/pages/region.h"
#include "allocator/pages/window.h"

namespace rdmalloc {

struct RegionOrder {
  RegionKind kind = RegionKind::kPinned;
  size_t length = 0;     // bytes, a page multiple
  size_t alignment = 0;  // of the region's base, a power of two; a granule at least
  int node = 0;
  RegionUse use = RegionUse::kExtents;
  // A preference: without huge pages, base pages are used.
  os::PageKind page_kind = os::PageKind::kBase;
  bool may_overflow = false;  // what cannot be locked is kept, as overflow
};

class RegionMaker {
 public:
  constexpr RegionMaker(Window& window, Budget& budget, const Options& options,
                        const Placement& placement)
      : window_(window), budget_(budget), options_(options), placement_(placement) {}
  RegionMaker(const RegionMaker&) = delete;
  RegionMaker& operator=(const RegionMaker&) = delete;

  // Zero length: refused, and nothing happened.
  Region make(const RegionOrder& order) REQUIRES(growth_lock);

  // Addresses for a region of that use, in its part of the window. Null: none are left.
  void* carve(RegionUse use, size_t bytes, size_t alignment) REQUIRES(growth_lock);

  // Opens, places and locks what lies behind the first `offset` bytes of a gathered region, in the
  // same way as the rest. False: refused, and nothing happened.
  bool extend(Region* region, size_t offset, os::PageKind kind) REQUIRES(growth_lock);

  // The last step, which cannot fail: seals the region if the options say so. It cannot be undone
  // from here on.
  void finish(Region* region) REQUIRES(growth_lock);

  // A sparse region is gone, and nobody keeps anything of it: its addresses are used again, but
  // only for sparse regions, whose pages come and go like those of memory that is unmapped and
  // mapped.
  void reuse_addresses(const Region& region) REQUIRES(growth_lock);

  bool is_by_touch(RegionUse use) const { return placement_.is_by_touch(use); }

  // Undoes the last make(), of a region that nobody was told of.
  void undo(const Region& region) REQUIRES(growth_lock);

 private:
  void* find_addresses(const RegionOrder& order) REQUIRES(growth_lock);
  void give_back_addresses(const Region& region) REQUIRES(growth_lock);
  bool open(Region* region, os::PageKind kind);
  bool open_best(Region* region, os::PageKind wanted);
  bool pin(Region* region, bool may_overflow) REQUIRES(growth_lock);

  Window& window_;
  Budget& budget_;
  const Options& options_;
  const Placement& placement_;
  FreePages sparse_addresses_ GUARDED_BY(growth_lock);  // in granules
};

}  // namespace rdmalloc
