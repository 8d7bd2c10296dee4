// Regions of gathered pages, and of new ones for what is missing. Chooses the depots that the pages
// are gathered from, and whether they are moved or, where mappings run short, given to the kernel
// for new ones.
//
// Runs inside malloc, under the growth lock: some short system calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/assembly.h"
#include "allocator/pages/gathering.h"
#include "allocator/pages/gathering_policy.h"
#include "allocator/pages/growth_warnings.h"
#include "allocator/pages/new_regions.h"
#include "allocator/pages/page_mover.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/publisher.h"
#include "allocator/pages/region_maker.h"
#include "allocator/pages/spare_pages.h"

namespace rdmalloc {

class GatheredRegions {
 public:
  // Which free pages are worth moving.
  enum class Worth : uint8_t { kTouched, kAll };

  constexpr GatheredRegions(PageStore& store, Publisher& publisher, GatheringPolicy& policy,
                            GrowthWarnings& warnings, RegionMaker& maker, PageMover& mover,
                            NewRegions& new_regions)
      : store_(store),
        publisher_(publisher),
        policy_(policy),
        warnings_(warnings),
        mover_(mover),
        new_regions_(new_regions),
        assembly_(store, gathering_, mover, maker),
        spares_(store, publisher, gathering_, mover),
        gathering_(store.regions, store.observers, mover.mappings()) {}
  GatheredRegions(const GatheredRegions&) = delete;
  GatheredRegions& operator=(const GatheredRegions&) = delete;

  // `is_forced`: at every growth, down to single pages; for tests.
  void boot(bool is_off, bool is_forced) { gathering_.boot(is_off, is_forced); }

  // Makes a region of free pages, and of new pages for what is missing, where that pays. If nothing
  // is taken, either nothing happened or the pages that did move are a region of free pages.
  Acquired gather(const Request& request, const RegionPlan& plan, bool pinned, Worth worth)
      REQUIRES(growth_lock);

  // No more memory may be held: assembles the request from all free pieces, however small and
  // whatever their use.
  Acquired make_last(const Request& request) REQUIRES(growth_lock);

  // Moves a block's pages, with its bytes, to where it can have the request's size and, if new
  // pages are needed, spare ones.
  Acquired move_block(const Assembly::Block& block, const Request& request, const RegionPlan& plan)
      REQUIRES(growth_lock);
  SparePages& spares() { return spares_; }
  // False: it is sealed or of a kind that is not moved, or there are too many regions.
  bool may_move_block(const Assembly::Block& block) const REQUIRES(growth_lock);

 private:
  // All nodes in turn, the request's own first.
  int nth_node(const Request& request, int i) const {
    return (request.node + i) % store_.depots.nodes();
  }
  size_t free_of(const Request& request, int node, bool pinned) const;
  bool collect(const Request& request, size_t target, bool pinned, Gathering::Way way)
      REQUIRES(growth_lock);
  size_t collect_of(const Request& request, int node, size_t missing, bool pinned,
                    Gathering::Way way) REQUIRES(growth_lock);
  bool collect_touched(const Request& request, size_t target, bool pinned, Gathering::Way way)
      REQUIRES(growth_lock);
  Acquired gather_by(const Request& request, const RegionPlan& plan, size_t target, bool pinned,
                     Worth worth, Gathering::Way way) REQUIRES(growth_lock);
  bool collect_last(const Request& request, bool pinned, Gathering::Way way) REQUIRES(growth_lock);
  Acquired assemble(const Request& request, const RegionPlan& plan, const Assembly::Block* block)
      REQUIRES(growth_lock);
  Acquired renew(const Request& request, os::PageKind kind) REQUIRES(growth_lock);

  PageStore& store_;
  Publisher& publisher_;
  GatheringPolicy& policy_;
  GrowthWarnings& warnings_;
  PageMover& mover_;
  NewRegions& new_regions_;
  Assembly assembly_;
  SparePages spares_;
  Gathering gathering_;  // last: most of it is touched only by gathering
};

}  // namespace rdmalloc
