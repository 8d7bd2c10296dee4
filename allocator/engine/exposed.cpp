#include "allocator/engine/exposed.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/engine/jemalloc.h"
#include "allocator/heap.h"
#include "allocator/message.h"

namespace rdmalloc::engine {
namespace {

// 0: more than can be had.
size_t whole_pages(size_t size) {
  if (size > PTRDIFF_MAX) return 0;
  return size == 0 ? os::kPageSize : os::page_ceil(size);
}

[[noreturn]] void die(const char* call, const void* pointer) {
  Message message;
  message.add("rdmalloc: ").add(call).add(" of ").add_address(pointer);
  message.add(": no live block of exposed memory starts there; it was freed before, or is not ");
  message.add("what rdm_alloc returned").send();
  abort();
}

size_t size_of(const void* pointer, const char* call) {
  const size_t size = heap.exposed_size(pointer);
  if (size == 0) die(call, pointer);
  return size;
}

void zero_beyond(void* pointer, size_t before, size_t now) {
  if (now > before) memset(static_cast<char*>(pointer) + before, 0, now - before);
}

}  // namespace

void* allocate_exposed(size_t size, size_t alignment) {
  // jemalloc's first extent starts the heap; a program may come here before its first malloc.
  if (!heap.booted()) je_free(malloc(1));
  const size_t bytes = whole_pages(size);
  if (bytes == 0) return nullptr;
  return heap.allocate_exposed(bytes, alignment < os::kPageSize ? os::kPageSize : alignment);
}

void free_exposed(void* pointer) {
  if (!heap.release_exposed(pointer)) die("free", pointer);
}

size_t exposed_usable_size(const void* pointer) { return size_of(pointer, "malloc_usable_size"); }

void* reallocate_exposed(void* pointer, size_t size, size_t alignment, bool zero) {
  const size_t before = size_of(pointer, "realloc");
  const size_t bytes = whole_pages(size);
  if (bytes == 0) return nullptr;
  const bool is_aligned = (reinterpret_cast<uintptr_t>(pointer) & (alignment - 1)) == 0;
  if (!is_aligned || !heap.resize_exposed(pointer, bytes)) {
    void* moved = allocate_exposed(bytes, alignment);
    if (moved == nullptr) return nullptr;
    memcpy(moved, pointer, before < bytes ? before : bytes);
    free_exposed(pointer);
    pointer = moved;
  }
  if (zero) zero_beyond(pointer, before, bytes);
  return pointer;
}

size_t resize_exposed(void* pointer, size_t size, size_t extra, bool zero) {
  const size_t before = size_of(pointer, "xallocx");
  const auto became = [&](size_t bytes) {
    if (bytes == 0 || !heap.resize_exposed(pointer, bytes)) return false;
    if (zero) zero_beyond(pointer, before, bytes);
    return true;
  };
  const size_t least = whole_pages(size);
  const size_t most = size + extra < size ? least : whole_pages(size + extra);
  if (became(most)) return most;
  if (before < least && became(least)) return least;
  return before;
}

}  // namespace rdmalloc::engine
