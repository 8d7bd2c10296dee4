// Memory for a replay's own data, separate from what it measures.
#pragma once

#include <cstddef>

#include "allocator/os/memory.h"
#include "allocator/os/memory_calls.h"

namespace rdmalloc::trace {

// Zeroed, in base pages that appear when touched: a huge page for a table's first byte would be
// measured as the allocator's. A multiple of the page size. Null: no memory.
inline void* map_own(size_t bytes) {
  void* mapped = os::map_metadata(os::page_ceil(bytes));
  if (mapped != nullptr) os::madvise(mapped, os::page_ceil(bytes), MADV_NOHUGEPAGE);
  return mapped;
}

inline void unmap_own(void* mapped, size_t bytes) { os::munmap(mapped, os::page_ceil(bytes)); }

// Enlarges it, perhaps at another address, with the same contents. Null: no memory; the old one
// stays.
inline void* grow_own(void* mapped, size_t bytes, size_t new_bytes) {
  void* grown =
      os::mremap(mapped, os::page_ceil(bytes), os::page_ceil(new_bytes), MREMAP_MAYMOVE, nullptr);
  return grown == MAP_FAILED ? nullptr : grown;
}

}  // namespace rdmalloc::trace
