// Regions of new pages: made, published, and the request's part taken. The budget has granted them
// already.
//
// Runs inside malloc, under the growth lock: some short system calls.
#pragma once

#include <cstddef>

#include "allocator/limits/budget.h"
#include "allocator/pages/growth_warnings.h"
#include "allocator/pages/page_mover.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/publisher.h"
#include "allocator/pages/region_maker.h"

namespace rdmalloc {

class NewRegions {
 public:
  constexpr NewRegions(PageStore& store, Publisher& publisher, RegionMaker& maker, PageMover& mover,
                       GrowthWarnings& warnings)
      : store_(store), publisher_(publisher), maker_(maker), mover_(mover), warnings_(warnings) {}
  NewRegions(const NewRegions&) = delete;
  NewRegions& operator=(const NewRegions&) = delete;

  // Makes a region of new pages. Nothing taken: nothing happened.
  Acquired acquire(Grant grant, const Request& request, os::PageKind kind) REQUIRES(growth_lock);

 private:
  Region make(Grant grant, const Request& request, os::PageKind kind) REQUIRES(growth_lock);

  PageStore& store_;
  Publisher& publisher_;
  RegionMaker& maker_;
  PageMover& mover_;
  GrowthWarnings& warnings_;
};

}  // namespace rdmalloc
