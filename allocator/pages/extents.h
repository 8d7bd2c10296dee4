// The extents: runs of pages that jemalloc has from the page heap, for its small objects.
//
// Called by jemalloc's hooks, inside malloc and perhaps with jemalloc's locks held: allocates
// nothing, throws nothing and makes plain system calls only.
#pragma once

#include <cstddef>

#include "allocator/pages/freed_blocks.h"
#include "allocator/pages/growth.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/program_holes.h"

namespace rdmalloc {

class Extents {
 public:
  constexpr Extents(PageStore& store, Growth& growth, ProgramHoles& holes, FreedBlocks& freed)
      : store_(store), growth_(growth), holes_(holes), freed_(freed) {}
  Extents(const Extents&) = delete;
  Extents& operator=(const Extents&) = delete;

  // Allocates an extent of `size` bytes, a page multiple; exactly at `new_addr` unless that is
  // null. In: *zero requests that it reads as zero; out: *zero says that it does. Null: no memory.
  void* allocate(void* new_addr, size_t size, size_t alignment, bool* zero);

  // Takes back an extent, or parts of extents. False: refused, the caller keeps it.
  bool release(void* address, size_t size);

  // True when allocate() would have to acquire memory for this. A guess: other threads take too.
  bool must_grow(size_t size, size_t alignment);

 private:
  Taken take(const Request& request);
  bool release_around(const Region& region, void* address, size_t size);

  PageStore& store_;
  Growth& growth_;
  ProgramHoles& holes_;
  FreedBlocks& freed_;
};

}  // namespace rdmalloc
