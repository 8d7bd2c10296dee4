// Exposed memory behind malloc's names: what rdm_alloc(RDM_EXPOSED) gives, and what free, realloc
// and their kin do with a pointer to it. It is whole pages of the heap's exposed regions, and never
// jemalloc's. Cold.
//
// The C++ operators are left out, as for foreign memory: they are jemalloc's own code, and delete
// is for what new gave.
//
// A pointer into the exposed part of the window at which no live block starts ends the program with
// a sentence that names the call: it was freed twice, or is not what was returned.
#pragma once

#include <cstddef>

namespace rdmalloc::engine {

// Sizes are rounded up to whole pages, 0 to one; `alignment` is a power of two, or 0. Null, and
// errno left alone, when it cannot be had pinned.
void* allocate_exposed(size_t size, size_t alignment);

void free_exposed(void* pointer);
size_t exposed_usable_size(const void* pointer);

// As realloc and rallocx, for a size above 0. The block stays exposed.
void* reallocate_exposed(void* pointer, size_t size, size_t alignment, bool zero);

// As xallocx: in place or not at all. Returns the usable size.
size_t resize_exposed(void* pointer, size_t size, size_t extra, bool zero);

}  // namespace rdmalloc::engine
