// Blocks of the page heap behind malloc's names: large objects, and what rdm_alloc(RDM_EXPOSED)
// returns. Every function of the family serves sizes above kLargestSmall with blocks. jemalloc
// serves them itself, more slowly but correctly, for heap profiling (prof:true), for mallocx with
// an explicit arena, and for arenas with the program's own hooks.
//
// A pointer into the part of the window that holds blocks, at which no live block starts, ends the
// program with a sentence that names the call: the pointer was freed twice, or malloc never
// returned it.
#pragma once

#include <cstddef>

#include "allocator/pages/heap.h"

namespace rdmalloc::engine {

// Larger sizes are blocks. SIZE_MAX where jemalloc serves them. 0 until the heap has started, which
// a process that never allocates is spared: then is_large_once_started() sorts them.
[[gnu::visibility("hidden")]] extern constinit size_t largest_small;
bool is_large_once_started(size_t size);
inline bool is_large(size_t size) {
  return size > largest_small && (largest_small != 0 || is_large_once_started(size));
}
// Called once, when the heap has reserved its window.
void take_large_sizes();
// From now on large sizes are jemalloc's.
void leave_large_sizes_to_jemalloc();

// Null, with errno unchanged, if there is no memory.
inline void* allocate_block(size_t size, size_t alignment, bool zero) {
  return heap.blocks().allocate(size, alignment, zero);
}

// Sizes are rounded up to whole pages, 0 to one; `alignment` is a power of two, or 0. Null, with
// errno unchanged, if there is no pinned memory for it.
void* allocate_exposed(size_t size, size_t alignment);

void free_block(void* pointer);
// Ends the program, with a sentence: no object of ours is at that address.
[[noreturn]] void die(const char* call, const void* pointer);

// Copies an object, even one that the program made holes in: unreadable bytes become zero.
void copy_object(void* to, const void* from, size_t size);
// For one of jemalloc's objects, once its part of the window has holes. False: the program
// destroyed some of the object, and it must never be used again.
bool may_free_small(void* pointer);
size_t usable_size_of_block(const void* pointer);

// Like realloc and rallocx, for a size above 0. An exposed block stays exposed; any other block
// that becomes small moves to jemalloc.
void* reallocate_block(void* pointer, size_t size, size_t alignment, bool zero);

// Like xallocx: in place or not at all. Returns the usable size.
size_t resize_block(void* pointer, size_t size, size_t extra, bool zero);

}  // namespace rdmalloc::engine
