// The malloc family as the program sees it: calls the next malloc and records its answer.
#include <errno.h>

#include "allocator/os/page_size.h"
#include "allocator/trace/next_malloc.h"
#include "allocator/trace/recorder.h"

#define EXPORT [[gnu::visibility("default")]]

using namespace rdmalloc::trace;

namespace {

void* keep_allocation(RawKind kind, void* pointer, size_t size, uint64_t alignment_log2 = 0) {
  if (pointer != nullptr) [[likely]] {
    record(kind, pointer, size, alignment_log2, stamp_of(pointer));
  }
  return pointer;
}

// For functions that some allocators build on other functions of the family.
void* keep_unless_kept(const Since& before, void* pointer, size_t size, size_t alignment) {
  if (pointer == nullptr || before.was_recorded(pointer)) return pointer;
  return keep_allocation(RawKind::kAllocate, pointer, size, logarithm(alignment));
}

void keep_resize(void* old, void* pointer, size_t size) {
  if (pointer != nullptr) {
    record(RawKind::kResizeEnd, pointer, size, 0, stamp_of(pointer));
  } else if (size != 0) {
    record(RawKind::kResizeEnd, old, 0, kRefused, stamp_of(old));
  }
  // Otherwise the object was freed: the kResizeBegin stands alone.
}

}  // namespace

extern "C" {

EXPORT void* malloc(size_t size) {
  return keep_allocation(RawKind::kAllocate, next.malloc(size), size);
}

EXPORT void* calloc(size_t count, size_t size) {
  return keep_allocation(RawKind::kAllocateZeroed, next.calloc(count, size), count * size);
}

EXPORT void free(void* pointer) {
  if (pointer == nullptr || is_early(pointer)) return;
  record(RawKind::kFree, pointer, 0, 0, stamp_of_return(pointer));
  next.free(pointer);
}

EXPORT void* realloc(void* pointer, size_t size) {
  if (pointer == nullptr) {
    return keep_allocation(RawKind::kAllocate, next.realloc(nullptr, size), size);
  }
  if (is_early(pointer)) return resize_early(pointer, size);
  record(RawKind::kResizeBegin, pointer, size, 0, stamp_of_return(pointer));
  void* moved = next.realloc(pointer, size);
  keep_resize(pointer, moved, size);
  return moved;
}

EXPORT void* reallocarray(void* pointer, size_t count, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(pointer, bytes);
}

EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
  const Since before;
  const int error = next.posix_memalign(out, alignment, size);
  if (error == 0) keep_unless_kept(before, *out, size, alignment);
  return error;
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  const Since before;
  return keep_unless_kept(before, next.aligned_alloc(alignment, size), size, alignment);
}

EXPORT void* memalign(size_t alignment, size_t size) {
  const Since before;
  return keep_unless_kept(before, next.memalign(alignment, size), size, alignment);
}

EXPORT void* valloc(size_t size) {
  const Since before;
  return keep_unless_kept(before, next.valloc(size), size, rdmalloc::os::page_size());
}

EXPORT void* pvalloc(size_t size) {
  const Since before;
  const size_t whole = rdmalloc::os::page_ceil(size);
  return keep_unless_kept(before, next.pvalloc(size), whole, rdmalloc::os::page_size());
}

EXPORT size_t malloc_usable_size(void* pointer) {
  return is_early(pointer) ? early_size(pointer) : next.malloc_usable_size(pointer);
}

}  // extern "C"
