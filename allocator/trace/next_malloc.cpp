#include "allocator/trace/next_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <atomic>

namespace rdmalloc::trace {

alignas(64) char early_memory[kEarlyBytes];

namespace {

constexpr size_t kEarlyAlignment = 64;

std::atomic<size_t> early_taken{0};

// The lookup itself allocates; its thread must not start another one.
thread_local bool looking = false;

// The size is stored in front of the memory, so each allocation takes one unit more.
void* early_allocate(size_t size) {
  if (size > kEarlyBytes / 2) return nullptr;
  const size_t units = (size + kEarlyAlignment - 1) / kEarlyAlignment + 1;
  const size_t at = early_taken.fetch_add(units * kEarlyAlignment, std::memory_order_relaxed);
  if (at + units * kEarlyAlignment > kEarlyBytes) return nullptr;
  memcpy(early_memory + at, &size, sizeof size);
  return early_memory + at + kEarlyAlignment;
}

template <typename Function>
void find(const char* name, Function** into, Function* fallback) {
  void* found = dlsym(RTLD_NEXT, name);
  Function* function = found != nullptr ? reinterpret_cast<Function*>(found) : fallback;
  __atomic_store_n(into, function, __ATOMIC_RELEASE);
}

int no_posix_memalign(void**, size_t, size_t) { return ENOMEM; }
void* no_aligned(size_t, size_t) { return nullptr; }
void* no_pages(size_t) { return nullptr; }
size_t no_size(void*) { return 0; }

// Several threads may do this at once: they find the same functions. malloc and free are set last,
// because a thread that finds these set does not look for the others.
void find_all() {
  looking = true;
  find("posix_memalign", &next.posix_memalign, no_posix_memalign);
  find("aligned_alloc", &next.aligned_alloc, no_aligned);
  find("memalign", &next.memalign, no_aligned);
  find("valloc", &next.valloc, no_pages);
  find("pvalloc", &next.pvalloc, no_pages);
  find("malloc_usable_size", &next.malloc_usable_size, no_size);
  find<void*(size_t, size_t)>("calloc", &next.calloc, no_aligned);
  find<void*(void*, size_t)>("realloc", &next.realloc, nullptr);
  find<void(void*)>("free", &next.free, nullptr);
  find<void*(size_t)>("malloc", &next.malloc, nullptr);
  looking = false;
}

void* first_malloc(size_t size) {
  if (looking) return early_allocate(size);
  find_all();
  return next.malloc(size);
}

void* first_calloc(size_t count, size_t size) {
  size_t bytes = 0;
  if (looking && !__builtin_mul_overflow(count, size, &bytes)) return early_allocate(bytes);
  find_all();
  return next.calloc(count, size);
}

void* first_realloc(void* pointer, size_t size) {
  if (looking) return pointer == nullptr ? early_allocate(size) : nullptr;
  find_all();
  return next.realloc(pointer, size);
}

void first_free(void* pointer) {
  if (looking) return;
  find_all();
  next.free(pointer);
}

int first_posix_memalign(void** out, size_t alignment, size_t size) {
  if (looking) return ENOMEM;
  find_all();
  return next.posix_memalign(out, alignment, size);
}

void* first_aligned_alloc(size_t alignment, size_t size) {
  if (looking) return nullptr;
  find_all();
  return next.aligned_alloc(alignment, size);
}

void* first_memalign(size_t alignment, size_t size) {
  if (looking) return nullptr;
  find_all();
  return next.memalign(alignment, size);
}

void* first_valloc(size_t size) {
  if (looking) return nullptr;
  find_all();
  return next.valloc(size);
}

void* first_pvalloc(size_t size) {
  if (looking) return nullptr;
  find_all();
  return next.pvalloc(size);
}

size_t first_usable_size(void* pointer) {
  if (looking) return 0;
  find_all();
  return next.malloc_usable_size(pointer);
}

}  // namespace

constinit NextMalloc next = {
    first_malloc,        first_calloc,   first_realloc, first_free,    first_posix_memalign,
    first_aligned_alloc, first_memalign, first_valloc,  first_pvalloc, first_usable_size};

bool is_looking_up() { return looking; }

size_t early_size(const void* pointer) {
  size_t size = 0;
  memcpy(&size, static_cast<const char*>(pointer) - kEarlyAlignment, sizeof size);
  return size;
}

void* resize_early(void* pointer, size_t size) {
  const size_t old_size = early_size(pointer);
  if (size <= old_size) return pointer;
  void* moved = next.malloc(size);
  if (moved != nullptr) memcpy(moved, pointer, old_size);
  return moved;
}

}  // namespace rdmalloc::trace
