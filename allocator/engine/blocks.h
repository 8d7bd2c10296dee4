// Blocks of the page heap behind malloc's names: large objects, and what rdm_alloc(RDM_EXPOSED)
// gives. Sizes above kLargestSmall are blocks from whichever function of the family; with
// exceptions that jemalloc serves itself, slower but right: heap profiling (prof:true), mallocx
// with an arena of its own, and arenas with hooks of the program's own.
//
// A pointer into the part of the window that holds blocks at which no live one starts ends the
// program with a sentence that names the call: it was freed twice, or is not what was returned.
#pragma once

#include <cstddef>

#include "allocator/pages/heap.h"

namespace rdmalloc::engine {

// Sizes above it are blocks. SIZE_MAX until the heap has started, and where jemalloc serves them.
extern constinit size_t largest_small;
// Once, when the heap has reserved its window.
void take_large_sizes();
// From now on large sizes are jemalloc's.
void leave_large_sizes_to_jemalloc();

// Null, and errno left alone, when there is no memory.
inline void* allocate_block(size_t size, size_t alignment, bool zero) {
  return heap.blocks().allocate(size, alignment, zero);
}

// Sizes are rounded up to whole pages, 0 to one; `alignment` is a power of two, or 0. Null, and
// errno left alone, when it cannot be had pinned.
void* allocate_exposed(size_t size, size_t alignment);

void free_block(void* pointer);

// Copies an object, also one that the program made holes in: what cannot be read becomes zero.
void copy_object(void* to, const void* from, size_t size);
// Of an object of jemalloc's, once there are holes in its part of the window. False: the program
// destroyed some of it, and it must never be used again.
bool may_free_small(void* pointer);
size_t usable_size_of_block(const void* pointer);

// As realloc and rallocx, for a size above 0. What was exposed stays so; another block that becomes
// small is jemalloc's from then on.
void* reallocate_block(void* pointer, size_t size, size_t alignment, bool zero);

// As xallocx: in place or not at all. Returns the usable size.
size_t resize_block(void* pointer, size_t size, size_t extra, bool zero);

}  // namespace rdmalloc::engine
