// The spare pages behind blocks that grow by moving: how many a block gets, and what becomes of
// them once it is gone, has moved on, or no more memory may be held.
//
// Each move adds a mapping to a block, and all of its mappings move again at the next. So a block
// that grows by small steps gets pages for more than one of them. Nobody else may have them while
// they wait: of blocks that grow side by side, each would take the other's at each step.
//
// Runs inside malloc, under the growth lock: some short system calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/assembly.h"
#include "allocator/pages/gathering.h"
#include "allocator/pages/page_mover.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/publisher.h"

namespace rdmalloc {

class SparePages {
 public:
  constexpr SparePages(PageStore& store, Publisher& publisher, Gathering& gathering,
                       PageMover& mover)
      : store_(store), publisher_(publisher), gathering_(gathering), mover_(mover) {}
  SparePages(const SparePages&) = delete;
  SparePages& operator=(const SparePages&) = delete;

  // True for a growth by less than a quarter. A block that grows by larger steps moves seldom.
  static constexpr bool is_small_step(size_t before, size_t size) {
    return size > before && size - before < size / 4;
  }

  // The plan for moving a block to where it can have the request's size. `at_once`: new pages are
  // populated as soon as they are ready.
  static RegionPlan plan(const Assembly::Block& block, const Request& request, os::PageKind kind,
                         bool at_once);

  // Settles what waits behind a block that is about to move: what was never handed out is given to
  // the kernel, if no device may have it, and the rest is free.
  void settle(const Assembly::Block& block) REQUIRES(growth_lock);
  // The same for all that no block needs any more: now and then, as memory is freed. True: some of
  // it became free.
  bool settle_all(bool pinned) REQUIRES(growth_lock);
  // No more such memory may be held: makes all of it free.
  void release(bool pinned) REQUIRES(growth_lock);

 private:
  bool is_left_over(uintptr_t spare) const;
  bool settle_run(Depot& depot, uintptr_t address, size_t size) REQUIRES(growth_lock);
  void free_run(Depot& depot, uintptr_t address, size_t size);
  template <typename Pred, typename Use>
  void take(bool pinned, Pred is_wanted, Use use) REQUIRES(growth_lock);

  PageStore& store_;
  Publisher& publisher_;
  Gathering& gathering_;
  PageMover& mover_;
  size_t given_then_[2] GUARDED_BY(growth_lock) = {};  // when all were settled, pinned ones or not
};

}  // namespace rdmalloc
