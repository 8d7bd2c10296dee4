// Acquires regions: from which budget, gathered or new, and how a region is published.
//
//   gather -> (what is missing) budget -> window -> place, lock -> publish -> populate, register
//
// Everything but the last step runs under the growth lock, in one thread at a time, inside malloc:
// some short system calls. Populating and registering take time in proportion to the region, and
// run under no lock: nobody waits for another thread's growth.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/limits/budget.h"
#include "allocator/limits/options.h"
#include "allocator/mutex.h"
#include "allocator/pages/assembly.h"
#include "allocator/pages/block_table.h"
#include "allocator/pages/books.h"
#include "allocator/pages/cpu_caches.h"
#include "allocator/pages/depots.h"
#include "allocator/pages/empty_slots.h"
#include "allocator/pages/gathering.h"
#include "allocator/pages/growth_policy.h"
#include "allocator/pages/growth_warnings.h"
#include "allocator/pages/huge_pages.h"
#include "allocator/pages/observers.h"
#include "allocator/pages/placement.h"
#include "allocator/pages/region_maker.h"
#include "allocator/pages/region_table.h"
#include "allocator/pages/window.h"

namespace rdmalloc {

// What growing works on; all of it the heap's.
struct PageStore {
  const Options& options;
  Window& window;
  RegionTable& regions;
  PageMarks& marks;
  BlockTable& blocks;
  Budget& budget;
  Depots& depots;
  CpuCaches& caches;
  Books& books;
  Observers& observers;
  const Placement& placement;
};

class Growth {
 public:
  explicit constexpr Growth(const PageStore& store)
      : store_(store),
        policy_(store.window, store.budget, store.depots),
        warnings_(store.options, store.budget, store.window),
        slots_(store.regions, store.observers),
        maker_(store.window, store.budget, store.options, store.placement),
        mover_(store.regions, store.marks),
        assembly_(gathering_, mover_, maker_, store.window, store.blocks, store.depots,
                  store.regions, store.budget),
        gathering_(store.regions, store.observers, mover_) {}
  Growth(const Growth&) = delete;
  Growth& operator=(const Growth&) = delete;

  void boot();

  // Pages for a request that no depot can serve. Grows, unless another thread has grown meanwhile.
  Taken grow(const Request& request) EXCLUDES(growth_lock);
  Taken grow_sparse(size_t size, size_t alignment, int node) EXCLUDES(growth_lock);

  // Releases a sparse region of which nothing is in use any more, so that its addresses can be used
  // again. Nothing happens while some of it is in use, or if it is sealed.
  void release_sparse(uintptr_t base) EXCLUDES(growth_lock, depot_lock);

  // Acquires `bytes` more pinned memory at once. False: it is not available, and nothing happened.
  bool reserve(size_t bytes, int node) EXCLUDES(growth_lock);

  // Moves a block's pages, with its bytes, to where it can have `size` bytes: a page multiple, and
  // more than it has. Its old addresses are retired. Null: not possible; nothing happened.
  void* move_block(uintptr_t address, size_t old_size, const Request& request)
      EXCLUDES(growth_lock);

  // Populates all of a region's pages, unless that is done. False: there is not enough room.
  bool populate(const Region& region, PagesFor who) EXCLUDES(growth_lock);
  // The same for a part that a device is about to use, regardless of the rest.
  bool populate_part(const Region& region, uintptr_t from, uintptr_t to) EXCLUDES(growth_lock);

  // The program's own system calls took pages of a region, returned them because the call failed,
  // or took all that were left. For ProgramHoles, which keeps the other books.
  void note_taken(const Region& region, size_t size) REQUIRES(growth_lock);
  void note_regained(const Region& region, size_t size) REQUIRES(growth_lock);
  void note_destroyed(Region* region) REQUIRES(growth_lock);

  const GrowthPolicy& policy() const { return policy_; }
  const HugePageWatch& huge_pages() const { return huge_.watch(); }
  size_t moved_bytes() const { return mover_.moved_bytes(); }
  size_t given_up_bytes() const { return mover_.given_up_bytes(); }
  uint64_t acquire_ns() const { return acquire_ns_.load(std::memory_order_relaxed); }

  // For fork, for tests, and for attaching observers.
  Mutex& mutex() RETURN_CAPABILITY(growth_lock) { return mutex_; }

 private:
  // A new region, and the part of it that was taken for the request.
  struct Acquired {
    Region* region = nullptr;
    Taken taken;
  };
  // What a region for a request would be made of.
  struct Plan {
    size_t bytes;
    os::PageKind kind;
  };

  Plan plan(const Request& request, RegionKind of) REQUIRES(growth_lock);
  Acquired grow_locked(const Request& request) REQUIRES(growth_lock);
  void note_refusal() REQUIRES(growth_lock);
  // All nodes in turn, the request's own first.
  int nth_node(const Request& request, int i) const {
    return (request.node + i) % store_.depots.nodes();
  }
  size_t collect_of(const Request& request, int node, size_t missing, bool pinned)
      REQUIRES(growth_lock);
  bool collect(const Request& request, size_t target, bool pinned) REQUIRES(growth_lock);
  // Which free pages are worth moving.
  enum class Worth : uint8_t { kTouched, kAll };
  Acquired gather(const Request& request, const Plan& plan, bool pinned, Worth worth)
      REQUIRES(growth_lock);
  Acquired make_last(const Request& request) REQUIRES(growth_lock);
  size_t free_for(const Request& request, bool pinned) const;
  bool collect_last(const Request& request, bool pinned, Gathering::Way way) REQUIRES(growth_lock);
  Acquired renew(const Request& request) REQUIRES(growth_lock);
  Acquired assemble(const Request& request, const Plan& plan, const Assembly::Block* block)
      REQUIRES(growth_lock);
  Acquired acquire(Grant grant, const Request& request, os::PageKind kind) REQUIRES(growth_lock);
  Region make(Grant grant, const Request& request, os::PageKind kind) REQUIRES(growth_lock);
  Acquired publish(const Region& region, size_t charged, const Request& request)
      REQUIRES(growth_lock);
  bool has_slot() const REQUIRES(growth_lock);
  size_t count_regions() const REQUIRES(growth_lock);
  void note_lost(Region* region, size_t size) REQUIRES(growth_lock);
  void note_emptied(Region* region) REQUIRES(growth_lock);
  void forget_blocks(const Region& region) REQUIRES(growth_lock);
  bool is_to_come_at_once(const Region& region) const;
  void make_ready(const Acquired& acquired, size_t wanted) EXCLUDES(growth_lock, depot_lock);

  const PageStore store_;
  GrowthPolicy policy_;
  GrowthWarnings warnings_;
  EmptySlots slots_;
  HugePages huge_;
  RegionMaker maker_;
  PageMover mover_;
  Assembly assembly_;
  Mutex mutex_{Rank::kGrowth};
  uint64_t pause_ns_ GUARDED_BY(growth_lock) = 0;  // since the last refusal to pin; 0: none
  std::atomic<uint64_t> acquire_ns_{0};
  Gathering gathering_;  // last: most of it is touched only by gathering
};

}  // namespace rdmalloc
