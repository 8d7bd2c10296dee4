#include "allocator/engine/foreign.h"

#include <dlfcn.h>
#include <string.h>

#include "allocator/engine/jemalloc.h"
#include "allocator/pages/heap.h"

// glibc's own entry points, independent of who interposes the plain names; absent in other C
// libraries.
extern "C" void __libc_free(void* pointer) __attribute__((weak));

namespace rdmalloc::engine {
namespace {

// jemalloc owns memory outside the window if a program brought its own extent hooks, or if no
// window could be reserved.
bool is_of_jemalloc() { return has_custom_hooks() || (heap.booted() && heap.window().size() == 0); }

}  // namespace

void free_foreign(void* pointer) {
  if (pointer == nullptr) return;
  if (is_of_jemalloc()) {
    je_free(pointer);
  } else if (__libc_free != nullptr) {
    __libc_free(pointer);
  }
}

size_t foreign_usable_size(void* pointer) {
  if (pointer == nullptr) return 0;
  if (is_of_jemalloc()) return je_malloc_usable_size(pointer);
  using UsableSize = size_t (*)(void*);
  const auto theirs = reinterpret_cast<UsableSize>(dlsym(RTLD_NEXT, "malloc_usable_size"));
  return theirs == nullptr ? 0 : theirs(pointer);
}

void* realloc_foreign(void* pointer, size_t size) {
  if (is_of_jemalloc()) return je_realloc(pointer, size);
  void* ours = malloc(size);
  if (ours == nullptr) return nullptr;
  const size_t old_size = foreign_usable_size(pointer);
  memcpy(ours, pointer, old_size < size ? old_size : size);
  free_foreign(pointer);
  return ours;
}

}  // namespace rdmalloc::engine
