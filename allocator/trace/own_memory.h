// Memory for what a replay knows, beside what it measures.
#pragma once

#include <cstddef>

#include "allocator/os/memory.h"
#include "allocator/os/memory_calls.h"

namespace rdmalloc::trace {

// Zeroed, in base pages that are there once they are touched: a huge page for the first byte of a
// table would be measured as the allocator's. A multiple of pages. Null without memory.
inline void* map_own(size_t bytes) {
  void* mapped = os::map_metadata(os::page_ceil(bytes));
  if (mapped != nullptr) os::madvise(mapped, os::page_ceil(bytes), MADV_NOHUGEPAGE);
  return mapped;
}

inline void unmap_own(void* mapped, size_t bytes) { os::munmap(mapped, os::page_ceil(bytes)); }

// Larger, maybe elsewhere, with the same contents. Null without memory: then the old one stays.
inline void* grow_own(void* mapped, size_t bytes, size_t new_bytes) {
  void* grown =
      os::mremap(mapped, os::page_ceil(bytes), os::page_ceil(new_bytes), MREMAP_MAYMOVE, nullptr);
  return grown == MAP_FAILED ? nullptr : grown;
}

}  // namespace rdmalloc::trace
