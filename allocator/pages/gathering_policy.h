// When moving free pages is better than acquiring new ones.
//
// Runs inside malloc: some arithmetic, and reads of sums that others may be changing.
#pragma once

#include <atomic>
#include <cstddef>

#include "allocator/pages/page_store.h"
#include "allocator/pages/patience.h"

namespace rdmalloc {

class GatheringPolicy {
 public:
  explicit constexpr GatheringPolicy(const PageStore& store) : store_(store) {}
  GatheringPolicy(const GatheringPolicy&) = delete;
  GatheringPolicy& operator=(const GatheringPolicy&) = delete;

  // `is_forced`: gathering is to happen at every growth; for tests.
  void boot(bool is_forced) { is_forced_ = is_forced; }

  // What would be gathered for a request, at most, where `step` would be acquired.
  size_t amount_to_gather(const Request& request, size_t step) const;

  // How many new pages come for a request after that many bytes were given to the kernel for it.
  size_t amount_to_renew(const Request& request, size_t given) const;

  // True while so little is free, including `cached`, that growing is better for a request of this
  // size than moving pages and emptying caches.
  bool is_tight(size_t size, size_t cached) const;

  // True when more is idle than keeping pages apart by node may cost: for a request of this size,
  // pages of other nodes are better than acquiring more of its own.
  bool is_ample(size_t size) const;
  // The heap grew.
  void note_live() REQUIRES(growth_lock);
  // `bytes` of free pages were moved for a request.
  void note_gathered(const Request& request, size_t bytes) REQUIRES(growth_lock);
  // Gathering for it took that much CPU time, whatever came of it.
  void note_gathering(const Request& request, uint64_t ns) REQUIRES(growth_lock) {
    patience_for(request).spend(ns);
  }

  // True when pages may be moved for this request, gathering `target` bytes, in a heap of that many
  // regions.
  bool may_gather(const Request& request, size_t target, size_t regions) REQUIRES(growth_lock);
  // True when gathering `missing` of the `free` bytes is worth it.
  bool is_worth_gathering(size_t missing, size_t free) const REQUIRES(growth_lock);
  // True while so much is idle that even pages that nobody touched are moved instead of acquiring
  // more.
  bool may_move_untouched() const;
  // True while so little is free, including `cached`, that growing for this request is better than
  // emptying caches of blocks that nobody has touched.
  bool may_keep_untouched(const Request& request, size_t cached) const;
  // True when what was gathered is enough to continue.
  bool is_enough(size_t gathered) const;
  // Smaller blocks are not worth moving.
  size_t least_block() const;
  // True while moving blocks of that size has not taken too much time.
  bool has_time_to_move(size_t size) REQUIRES(growth_lock);
  // True when a block may have its own region, and its addresses be used up.
  bool may_move_block(size_t regions) const REQUIRES(growth_lock);
  // Moving such a block took that much CPU time.
  void note_moving(size_t size, uint64_t ns) REQUIRES(growth_lock);

 private:
  // Of so many bytes that are held, those free in depots: neither the program nor a cache has them,
  // and no block may need them to grow.
  size_t idle_of(size_t held) const;
  // Bytes of addresses that are kept for growing, may still be used to move pages, and of these are
  // the last.
  size_t for_growing() const;
  size_t left_to_move_to() const REQUIRES(growth_lock);
  size_t scarce() const;

  static constexpr uint64_t kShareOfTime = 8;
  static constexpr uint64_t kShareInSmallHeap = 8;

  bool is_restless(const Request& request) REQUIRES(growth_lock);
  bool is_small() const;
  Patience& patience_for(const Request& request) REQUIRES(growth_lock);
  Patience& for_blocks() REQUIRES(growth_lock) {
    return is_small() ? blocks_in_small_heap_ : blocks_;
  }
  static size_t judged_size(const Request& request, size_t step);

  const PageStore& store_;
  bool is_forced_ = false;
  Patience patience_for_largest_ GUARDED_BY(growth_lock){1};
  Patience patience_ GUARDED_BY(growth_lock){kShareOfTime};
  // For blocks that realloc moves, all but the largest.
  Patience blocks_ GUARDED_BY(growth_lock){1};
  Patience blocks_in_small_heap_ GUARDED_BY(growth_lock){kShareInSmallHeap};
  size_t gathered_ GUARDED_BY(growth_lock) = 0;  // bytes, for all but the largest
  std::atomic<size_t> peak_live_{0};             // bytes; taken when the heap grows
};

}  // namespace rdmalloc
