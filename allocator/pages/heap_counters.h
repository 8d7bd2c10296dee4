// Sums over the whole heap, for statistics. They take the depots' locks, one at a time, outside
// malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/pages/heap.h"

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

// `kept`: bytes of extents that arenas keep though nothing in them is live. The peak of live bytes
// is taken when the heap grows, including kept extents, and here, without them. So no malloc or
// free pays for it.
HeapCounters heap_counters(Heap& target, size_t kept = 0) EXCLUDES(depot_lock);

// Bytes of blocks that the program has.
size_t live_blocks(const PageStore& store);

}  // namespace rdmalloc
