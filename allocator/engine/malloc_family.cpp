// The exported malloc functions that differ from jemalloc's: they let foreign pointers go back where
// they came from, tell exact large sizes, or are missing in jemalloc. malloc, calloc, mallocx and
// the C++ operators are jemalloc's own code, exported as they are.
#include <errno.h>
#include <stdint.h>

#include "allocator/engine/exact_size.h"
#include "allocator/engine/foreign.h"
#include "allocator/engine/jemalloc.h"
#include "allocator/heap.h"

#define EXPORT [[gnu::visibility("default")]]

using namespace rdmalloc;
using namespace rdmalloc::engine;

namespace {

bool is_ours(const void* pointer) { return heap.contains(pointer); }

// A class size is an upper bound: above kLargestCached the extent has the pages that were asked for.
size_t usable(const void* pointer, size_t class_size) {
  if (class_size <= kLargestCached) return class_size;
  const size_t extent = extent_size(pointer);
  return extent < class_size ? extent : class_size;
}

}  // namespace

extern "C" {

EXPORT void free(void* pointer) noexcept {
  if (is_ours(pointer)) [[likely]] {
    je_free(pointer);
    return;
  }
  free_foreign(pointer);
}

EXPORT void* realloc(void* pointer, size_t size) noexcept {
  if (pointer != nullptr && !is_ours(pointer)) [[unlikely]] return realloc_foreign(pointer, size);
  return je_realloc(pointer, size);
}

EXPORT void* reallocarray(void* pointer, size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(pointer, bytes);
}

EXPORT size_t malloc_usable_size(void* pointer) noexcept {
  if (!is_ours(pointer)) [[unlikely]] return foreign_usable_size(pointer);
  return usable(pointer, je_malloc_usable_size(pointer));
}

EXPORT size_t sallocx(const void* pointer, int flags) noexcept {
  return usable(pointer, je_sallocx(pointer, flags));
}

EXPORT size_t xallocx(void* pointer, size_t size, size_t extra, int flags) noexcept {
  return usable(pointer, je_xallocx(pointer, size, extra, flags));
}

EXPORT size_t nallocx(size_t size, int flags) noexcept {
  const size_t class_size = je_nallocx(size, flags);
  if (class_size <= kLargestCached) return class_size;
  return (size + os::kPageSize - 1) & ~(os::kPageSize - 1);
}

EXPORT int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  ExactRequest exact(size);
  return je_posix_memalign(out, alignment, size);
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  ExactRequest exact(size);
  return je_aligned_alloc(alignment, size);
}

EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  ExactRequest exact(size);
  return je_memalign(alignment, size);
}

EXPORT void* valloc(size_t size) noexcept {
  ExactRequest exact(size);
  return je_valloc(size);
}

EXPORT void* pvalloc(size_t size) noexcept {
  size_t rounded = 0;
  if (__builtin_add_overflow(size, os::kPageSize - 1, &rounded)) {
    errno = ENOMEM;
    return nullptr;
  }
  return valloc(rounded & ~(os::kPageSize - 1));
}

}  // extern "C"
