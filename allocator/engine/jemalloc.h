// The names of jemalloc that the engine touches. Public ones were renamed to je_* in our copy of
// the archive (cmake/prepare_engine.sh) where we export a version of our own; internal ones are
// taken over by the linker's --wrap. Pointers to jemalloc's own structures stay opaque.
//
// Everything here is fixed to jemalloc 5.3; the build checks the version and every symbol.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

void* malloc(size_t size) noexcept;
void* mallocx(size_t size, int flags) noexcept;
int mallctl(const char* name, void* old, size_t* old_size, void* next, size_t next_size) noexcept;

// Renamed.
void je_free(void* pointer) noexcept;
void je_dallocx(void* pointer, int flags) noexcept;
void je_sdallocx(void* pointer, size_t size, int flags) noexcept;
void* je_realloc(void* pointer, size_t size) noexcept;
int je_posix_memalign(void** out, size_t alignment, size_t size) noexcept;
void* je_memalign(size_t alignment, size_t size) noexcept;
size_t je_malloc_usable_size(void* pointer) noexcept;
size_t je_sallocx(const void* pointer, int flags) noexcept;
void* je_rallocx(void* pointer, size_t size, int flags) noexcept;
size_t je_xallocx(void* pointer, size_t size, size_t extra, int flags) noexcept;
size_t je_nallocx(size_t size, int flags) noexcept;

extern bool je_opt_prof;  // heap profiling is compiled in and on

// Size of the extent that a live object lies in; the object's own size when it is large.
void je_inspect_extent_util_stats_get(void* tsdn, const void* pointer, size_t* free_objects,
                                      size_t* objects, size_t* size);

}  // extern "C"

namespace rdmalloc {
class Heap;
}

namespace rdmalloc::engine {

// Largest size that thread caches hold; config.cpp sets it, and above it sizes are exact to
// the page instead of rounded to a size class.
inline constexpr size_t kLargestCached = size_t{32} << 10;

// Bytes that jemalloc mapped for its own metadata, outside the window.
size_t metadata_bytes();

// Address and size of a large object's extent, whatever its size class says.
inline size_t extent_size(const void* pointer) {
  size_t free_objects = 0;
  size_t objects = 0;
  size_t size = 0;
  je_inspect_extent_util_stats_get(nullptr, pointer, &free_objects, &objects, &size);
  return size;
}

// Tells free() and its kin which addresses are ours. Once, when the heap has reserved its window.
void take_window(Heap& heap);

// True once a program gave an arena extent hooks of its own: from then on jemalloc may own memory
// outside the window.
bool has_custom_hooks();

// True when these hooks of an arena (jemalloc's ehooks_t) are ours and not a program's own.
bool has_our_hooks(const void* ehooks);

}  // namespace rdmalloc::engine
