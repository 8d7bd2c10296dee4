// Acquires regions: how much at a time, from what budget, gathered or new, and how a region becomes
// known.
//
//   gather -> (what is missing) budget -> window -> place, lock -> publish -> populate, register
//
// Everything but the last step runs under the growth lock, by one thread at a time, inside malloc:
// some short system calls. Populating and registering take as long as the region is large, and run
// under no lock: nobody waits for somebody else's growth.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/budget.h"
#include "allocator/counters.h"
#include "allocator/mutex.h"
#include "allocator/options.h"
#include "allocator/pages/block_table.h"
#include "allocator/pages/cpu_caches.h"
#include "allocator/pages/depots.h"
#include "allocator/pages/gathering.h"
#include "allocator/pages/observers.h"
#include "allocator/pages/populate.h"
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
  Counters& counters;
  Observers& observers;
};

class Growth {
 public:
  explicit constexpr Growth(const PageStore& store)
      : store_(store),
        maker_(store.window, store.budget, store.options),
        gathering_(store.depots, store.regions, store.marks) {}
  Growth(const Growth&) = delete;
  Growth& operator=(const Growth&) = delete;

  void boot(bool several_nodes);

  // Pages for a request that no depot has, unless another thread has grown meanwhile.
  Taken grow(const Request& request) EXCLUDES(growth_lock);
  Taken grow_sparse(size_t size, size_t alignment, int node) EXCLUDES(growth_lock);

  // Acquires so much more pinned memory at once. False: it cannot be had, and nothing happened.
  bool reserve(size_t bytes, int node) EXCLUDES(growth_lock);

  // Moves a block's pages, with its bytes, to where it can have `size` bytes, a page multiple and
  // more than it has. Null: that cannot be had; nothing happened. Its old addresses are retired.
  void* move_block(uintptr_t address, size_t old_size, const Request& request)
      EXCLUDES(growth_lock);

  // True while so little is free, `cached` included, that for a request of this size growing is
  // better than moving pages and emptying caches.
  bool is_tight(size_t size, size_t cached) const;

  const Gathering& gathering() const { return gathering_; }
  uint64_t acquire_ns() const { return acquire_ns_.load(std::memory_order_relaxed); }
  size_t peak_held() const { return peak_held_.load(std::memory_order_relaxed); }

  // The highest that live bytes were known to be.
  size_t raise_peak_live(size_t live);

  // For fork, tests, and who attaches observers.
  Mutex& mutex() RETURN_CAPABILITY(growth_lock) { return mutex_; }

 private:
  static constexpr size_t kRefused = SIZE_MAX;
  static constexpr size_t kMostEmpties = 1024;

  struct Block {
    uintptr_t address;
    size_t size;
  };

  // A new region, and what of it was taken for the request.
  struct Acquired {
    Region* region = nullptr;
    Taken taken;
  };

  size_t next_step(RegionUse use) const REQUIRES(growth_lock);
  size_t wanted(const Request& request) const REQUIRES(growth_lock);
  Acquired grow_locked(const Request& request) REQUIRES(growth_lock);
  Acquired gather(const Request& request, bool pinned) REQUIRES(growth_lock);
  Acquired gather_last(const Request& request) REQUIRES(growth_lock);
  Acquired assemble(const Request& request, size_t spare, const Block* block) REQUIRES(growth_lock);
  bool lay_out(Region* region, const Request& request, size_t collected, const Block* block)
      REQUIRES(growth_lock);
  void give_back_addresses(const Region& region) REQUIRES(growth_lock);
  void mend_block(const Region& region, const Block& block, size_t moved, size_t collected)
      REQUIRES(growth_lock);
  size_t ask_fresh(const Region& region, const Request& request, size_t spare)
      REQUIRES(growth_lock);
  bool collect(const Request& request, bool pinned) REQUIRES(growth_lock);
  bool may_gather(const Request& request, size_t target) const REQUIRES(growth_lock);
  Acquired acquire(Grant grant, const Request& request) REQUIRES(growth_lock);
  Region make(Grant grant, const Request& request) REQUIRES(growth_lock);
  Acquired publish(const Region& region, size_t charged, const Request& request)
      REQUIRES(growth_lock);
  size_t count_regions() const REQUIRES(growth_lock) {
    return store_.regions.size() - (empties_ - reused_);
  }
  size_t find_free_slot() const REQUIRES(growth_lock);
  void note_retired(Region* region, size_t size) REQUIRES(growth_lock);
  void note_books() REQUIRES(growth_lock);
  void make_ready(Region* region) EXCLUDES(growth_lock, depot_lock);
  bool may_warn(uint32_t of) REQUIRES(growth_lock);
  void warn_of_ledger() REQUIRES(growth_lock);
  void warn_of_overflow() REQUIRES(growth_lock);
  void warn_of_window() REQUIRES(growth_lock);

  const PageStore store_;
  RegionMaker maker_;
  Gathering gathering_;
  Mutex mutex_{Rank::kGrowth};
  uint64_t counters_from_ = 0;
  uint64_t ask_again_from_ GUARDED_BY(growth_lock) = 0;    // ns; nothing could be pinned until then
  size_t held_[kRegionUses] GUARDED_BY(growth_lock) = {};  // bytes in regions, by use
  uint32_t warned_ GUARDED_BY(growth_lock) = 0;            // of what, by bit
  // Slots of regions that lost all their pages, the oldest first: how many there ever were, how
  // many of them were used again, and which.
  size_t empties_ GUARDED_BY(growth_lock) = 0;
  size_t reused_ GUARDED_BY(growth_lock) = 0;
  uint16_t empty_slots_[kMostEmpties] GUARDED_BY(growth_lock) = {};
  std::atomic<uint64_t> acquire_ns_{0};
  std::atomic<size_t> peak_held_{0};
  std::atomic<size_t> peak_live_{0};
};

}  // namespace rdmalloc
