// The page heap, put together: what it consists of, and who takes pages from it. jemalloc's hooks
// use extents(), malloc of large sizes uses blocks(). One per process, constant-initialised, so
// that it works before any constructor has run. README.md in the parent folder shows the way of a
// malloc, a free and a growth.
//
// Everything runs inside malloc, perhaps with jemalloc's locks held: it allocates nothing, throws
// nothing and makes plain system calls only.
#pragma once

#include <atomic>

#include "allocator/pages/extents.h"
#include "allocator/pages/growth.h"
#include "allocator/pages/large_blocks.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/populator.h"
#include "allocator/pages/program_holes.h"
#include "allocator/pages/publisher.h"

namespace rdmalloc {

class Heap {
 public:
  constexpr Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Reads options and limits and reserves the window. Called once, before the first allocation,
  // while no other thread can be in malloc.
  void boot();
  bool booted() const { return booted_.load(std::memory_order_acquire); }
  bool forked() const { return store_.forked.load(std::memory_order_relaxed); }

  // For whoever reads how much may be pinned before asking for it.
  void look_at_limits() EXCLUDES(growth_lock);

  Extents& extents() { return extents_; }
  LargeBlocks& blocks() { return blocks_; }
  // What the program's own system calls do to the heap's pages.
  ProgramHoles& holes() { return holes_; }
  Growth& growth() { return growth_; }
  Populator& populator() { return populator_; }
  Publisher& publisher() { return publisher_; }

  // All of its parts, for those that work on several; most readers need one of these.
  PageStore& store() { return store_; }
  const Options& options() const { return store_.options; }
  const Window& window() const { return store_.window; }
  const RegionTable& regions() const { return store_.regions; }
  const PageMarks& marks() const { return store_.marks; }
  const Budget& budget() const { return store_.budget; }
  Books& books() { return store_.books; }

 private:
  std::atomic<bool> booted_{false};
  ProgramHoles holes_{store_, publisher_};
  LargeBlocks blocks_{store_, growth_, holes_};
  Extents extents_{store_, growth_, holes_, blocks_.freed()};
  Populator populator_{store_};
  Publisher publisher_{store_};
  // At the end, because small processes touch only their beginnings.
  Growth growth_{store_, publisher_, populator_};
  PageStore store_;
};

// The process's heap.
extern constinit Heap heap;
// Makes it ready, as the first malloc does. For functions that a program may call before.
void start_heap();

}  // namespace rdmalloc
