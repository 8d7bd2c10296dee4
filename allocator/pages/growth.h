// Acquires regions: from which budget, gathered or new, and who makes them ready.
//
//   gather -> (what is missing) budget -> window -> place, lock -> publish -> populate, register
//
// Everything but the last step runs under the growth lock, in one thread at a time, inside malloc:
// some short system calls. Populating and registering take time in proportion to the region, and
// run under no lock: nobody waits for another thread's growth.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/message.h"
#include "allocator/pages/gathered_regions.h"
#include "allocator/pages/gathering_policy.h"
#include "allocator/pages/growth_policy.h"
#include "allocator/pages/growth_warnings.h"
#include "allocator/pages/new_regions.h"
#include "allocator/pages/page_mover.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/populator.h"
#include "allocator/pages/publisher.h"
#include "allocator/pages/region_maker.h"

namespace rdmalloc {

class Growth {
 public:
  constexpr Growth(PageStore& store, Publisher& publisher, Populator& populator)
      : store_(store),
        publisher_(publisher),
        populator_(populator),
        policy_(store, publisher),
        gathering_policy_(store),
        warnings_(store.options, store.budget, store.window),
        maker_(store.window, store.budget, store.options, store.placement),
        mover_(store.regions, store.marks),
        new_regions_(store, publisher, maker_, mover_, warnings_),
        gathered_(store, publisher, gathering_policy_, warnings_, maker_, mover_, new_regions_) {}
  Growth(const Growth&) = delete;
  Growth& operator=(const Growth&) = delete;

  void boot();

  // Pages for a request that no depot can serve. Grows, unless another thread has grown meanwhile.
  Taken grow(const Request& request) EXCLUDES(growth_lock);
  Taken grow_sparse(size_t size, size_t alignment, int node) EXCLUDES(growth_lock);

  // Releases a sparse region of which nothing is in use any more, so that its addresses can be used
  // again. Nothing happens while some of it is in use, or if it is sealed.
  void release_sparse(uintptr_t base) EXCLUDES(growth_lock, depot_lock);

  // Acquires `bytes` more pinned memory at once, in one region, for later allocations. False: it is
  // not available, and nothing happened; adds a clause on who has what all on this machine may
  // have, if that is why.
  bool reserve(size_t bytes, Message* why) EXCLUDES(growth_lock);

  // Whether moving a block of that size is better than copying it, if there is room for a copy.
  bool is_worth_moving(size_t size) EXCLUDES(growth_lock);
  // Whether move_block() may do anything for this block: asked before room is made for it.
  bool may_move_block(uintptr_t address, size_t size) EXCLUDES(growth_lock);
  // Moves a block's pages, with its bytes, to where it can have `size` bytes: a page multiple, and
  // more than it has. Its old addresses are retired. Null: not possible; nothing happened.
  void* move_block(uintptr_t address, size_t old_size, const Request& request)
      EXCLUDES(growth_lock);

  const GatheringPolicy& gathering_policy() const { return gathering_policy_; }
  const PageMover& mover() const { return mover_; }

 private:
  RegionPlan plan(const Request& request, RegionKind of) REQUIRES(growth_lock);
  RegionPlan plan_move(const Assembly::Block& block, const Request& request) REQUIRES(growth_lock);
  Acquired grow_locked(const Request& request) REQUIRES(growth_lock);
  Acquired grow_unpinned(const Request& request, const RegionPlan& pinned) REQUIRES(growth_lock);
  Acquired acquire(const Grant& grant, const Request& request, os::PageKind kind)
      REQUIRES(growth_lock);
  Acquired take_anywhere(const Request& request) EXCLUDES(depot_lock);

  PageStore& store_;
  Publisher& publisher_;
  Populator& populator_;
  GrowthPolicy policy_;
  GatheringPolicy gathering_policy_;
  GrowthWarnings warnings_;
  RegionMaker maker_;
  PageMover mover_;
  NewRegions new_regions_;
  GatheredRegions gathered_;  // last: most of it is touched only by gathering
};

}  // namespace rdmalloc
