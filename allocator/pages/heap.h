// The page heap, put together: the window, its regions, all their free pages, and who takes pages
// from them. jemalloc's hooks use allocate() and release(), malloc of large sizes uses blocks().
// One per process, constant-initialised, so that it works before any constructor has run. README.md
// in the parent folder shows the way of a malloc, a free and a growth.
//
// Everything runs inside malloc, perhaps with jemalloc's locks held: it allocates nothing, throws
// nothing and makes plain system calls only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/limits/budget.h"
#include "allocator/limits/options.h"
#include "allocator/pages/growth.h"
#include "allocator/pages/large_blocks.h"
#include "allocator/pages/program_holes.h"

namespace rdmalloc {

struct HeapCounters {
  size_t live = 0;
  size_t live_blocks = 0;   // of it: blocks, and no extents of jemalloc's
  size_t live_exposed = 0;  // of these
  size_t peak_live = 0;
  size_t peak_held = 0;
  size_t cached = 0;
  size_t gathered = 0;
  size_t retired = 0;
  size_t regions = 0;
  size_t free_extents = 0;
  size_t largest_free = 0;
  uint64_t acquire_ns = 0;
  size_t metadata = 0;
};

class Heap {
 public:
  constexpr Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Reads options and limits and reserves the window. Called once, before the first allocate(),
  // while no other thread can be in malloc.
  void boot();
  bool booted() const { return booted_.load(std::memory_order_acquire); }

  // Allocates an extent of `size` bytes, a page multiple, for jemalloc; exactly at `new_addr`
  // unless that is null. In: *zero requests that it reads as zero; out: *zero says that it does.
  // Null: no memory.
  void* allocate(void* new_addr, size_t size, size_t alignment, bool* zero);

  // Takes back an extent, or parts of extents. False: refused, the caller keeps it.
  bool release(void* address, size_t size);

  // True when allocate() would have to acquire memory for this. A guess: other threads take too.
  bool must_grow(size_t size, size_t alignment);

  // Acquires `bytes` more pinned memory at once, in one region, for later allocations. False: it is
  // not available, and nothing happened.
  bool reserve(size_t bytes) { return growth_.reserve(bytes, placement_.node_here()); }

  // For whoever reads how much may be pinned before asking for it.
  void look_at_limits() EXCLUDES(growth_lock);

  LargeBlocks& blocks() { return blocks_; }

  // What the program's own system calls do to the heap's pages.
  ProgramHoles& holes() { return holes_; }
  // ProgramHoles::begin(), after emptying the CPU caches.
  ProgramHoles::Hole begin_hole(uintptr_t base, size_t length) {
    blocks_.drain(true);
    return holes_.begin(base, length);
  }

  // The region that holds a pointer; null if there is none, or if the address was retired.
  const Region* find(const void* pointer) const { return regions_.find(pointer); }
  bool contains(const void* pointer) const { return window_.contains(pointer); }
  // True when some page of the range has been retired: nobody will ever have it again.
  bool is_retired(const void* address, size_t size) const {
    return marks_.is_retired(reinterpret_cast<uintptr_t>(address), size);
  }

  // Tells the observer of every existing region, and from then on of every new one. Does nothing if
  // it is attached already.
  Status attach(RegionObserver* observer) EXCLUDES(growth_lock);

  // What all observers have registered.
  RegistrationCounters registrations();

  // Populates all of a region's pages that are not there yet, for a caller that is about to
  // register it, under no lock. False: there is no room for all of them.
  bool populate(const Region& region, PagesFor who) { return growth_.populate(region, who); }
  bool populate_part(const Region& region, uintptr_t from, uintptr_t to) {
    return growth_.populate_part(region, from, to);
  }

  // See Counters.
  void begin_phase(const char* name);
  void note_registrations(uint64_t domains, uint64_t registered, uint64_t registered_pinned);
  const CounterPage& counter_page() const { return books_.page(); }
  // Shares the counters, however small the process is, because it asked to be watched. Returns
  // their descriptor, or -1.
  int share_counters() {
    look_at_limits();
    books_.counters().share();
    return books_.counters().descriptor();
  }
  void note_report(ReportState state) { books_.counters().note_report(state); }

  const Options& options() const { return options_; }
  const Window& window() const { return window_; }
  const RegionTable& regions() const { return regions_; }
  const PageMarks& marks() const { return marks_; }
  const Budget& budget() const { return budget_; }
  const HugePageWatch& huge_pages() const { return growth_.huge_pages(); }
  // `kept`: bytes of extents that arenas keep though nothing in them is live. The peak of live
  // bytes is taken when the heap grows, including kept extents, and here, without them. So no
  // malloc or free pays for it.
  HeapCounters counters(size_t kept = 0);
  // Bytes of blocks that the program has.
  size_t live_blocks() const;
  bool forked() const { return forked_.load(std::memory_order_relaxed); }

  // Around fork, in this order relative to jemalloc's own handlers: see fork.cpp.
  void before_fork() ACQUIRE(growth_lock, depot_lock, counters_lock);
  void after_fork_in_parent() RELEASE(growth_lock, depot_lock, counters_lock);
  void after_fork_in_child() RELEASE(growth_lock, depot_lock, counters_lock);

  // Checks depots, regions, blocks and sums against each other: linear, for tests.
  bool validate() EXCLUDES(growth_lock);

 private:
  Taken take(const Request& request);
  size_t count_regions() const;
  bool release_around(const Region& region, void* address, size_t size);
  // True when free pages of the region may be in that depot.
  bool is_place_of(const Region& region, const Depot& depot);

  std::atomic<bool> booted_{false};
  std::atomic<bool> forked_{false};
  Options options_;
  Window window_;
  RegionTable regions_{window_};
  PageMarks marks_{window_};
  BlockTable block_table_{window_};
  Budget budget_;
  CpuCaches caches_;
  Books books_{budget_, depots_};
  Observers observers_;
  Placement placement_;
  const PageStore store_{options_, window_, regions_, marks_,     block_table_, budget_,
                         depots_,  caches_, books_,   observers_, placement_};
  ProgramHoles holes_{store_, growth_};
  LargeBlocks blocks_{store_, growth_, holes_};
  // At the end, because small processes touch only their beginnings.
  Growth growth_{store_};
  Depots depots_{regions_};
};

// The process's heap.
extern constinit Heap heap;
// Makes it ready, as the first malloc does. For functions that a program may call before.
void start_heap();

}  // namespace rdmalloc
