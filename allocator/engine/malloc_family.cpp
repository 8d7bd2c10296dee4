// The exported malloc functions that differ from jemalloc's: they let exposed and foreign pointers
// go back where they came from, tell exact large sizes, or are missing in jemalloc. malloc, calloc,
// mallocx and the C++ operators are jemalloc's own code, exported as they are.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "allocator/engine/exact_size.h"
#include "allocator/engine/exposed.h"
#include "allocator/engine/foreign.h"
#include "allocator/engine/jemalloc.h"
#include "allocator/heap.h"

#define EXPORT [[gnu::visibility("default")]]

using namespace rdmalloc;
using namespace rdmalloc::engine;

namespace {

// The part of the window below all exposed regions, which is jemalloc's alone. By themselves: free
// reads both on every call, and through the heap's address each pair of malloc and free took an
// instruction more. So it did with a std::atomic, which GCC does not read within a comparison; a
// word that is written once for each exposed region is read in one piece without.
constinit uintptr_t ordinary_base = 0;
constinit size_t ordinary_size = 0;

bool is_ours(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) - ordinary_base < ordinary_size;
}

bool is_exposed(const void* pointer) { return !is_ours(pointer) && heap.contains(pointer); }

// Moves the border down below each new exposed region before anybody is given memory of it. To the
// pointers that a thread has before it hears of the region the old border gives the same answer.
class Border final : public RegionObserver {
 public:
  void on_acquire(const Region& region) noexcept override {
    if (!region.exposed) return;
    __atomic_store_n(&ordinary_size, region.base - ordinary_base, __ATOMIC_RELAXED);
  }
  void on_fork_child() noexcept override {}
};
constinit Border border;

// A class size is an upper bound: above kLargestCached the extent has the pages that were asked
// for.
size_t usable(const void* pointer, size_t class_size) {
  if (class_size <= kLargestCached) return class_size;
  const size_t extent = extent_size(pointer);
  return extent < class_size ? extent : class_size;
}

// Of the aligned functions. jemalloc may allocate for itself inside such a call, and must not be
// given the size that the call is about: its thread cache in a thread's first call, a profile's
// tables in any. 0 leaves sizes as jemalloc has them.
size_t exact_when_aligned(size_t size) {
  [[gnu::tls_model("initial-exec")]] static thread_local bool has_cache = false;
  if (size <= kLargestCached || je_opt_prof) return 0;
  if (!has_cache) {
    has_cache = true;
    je_free(malloc(1));
  }
  return size;
}

// jemalloc leaves errno alone where glibc sets it.
void* or_no_memory(void* pointer) {
  if (pointer == nullptr) [[unlikely]]
    errno = ENOMEM;
  return pointer;
}

// As glibc takes alignments: any number, rounded up.
size_t power_of_two(size_t alignment) {
  if (alignment <= alignof(max_align_t)) return alignof(max_align_t);
  if (alignment > SIZE_MAX / 2) return SIZE_MAX / 2 + 1;
  return size_t{1} << (64 - __builtin_clzl(alignment - 1));
}

// MALLOCX_LG_ALIGN: the lowest six bits; 1 without. MALLOCX_ZERO.
size_t alignment_of(int flags) { return size_t{1} << (flags & 63); }
bool wants_zero(int flags) { return (flags & 0x40) != 0; }

// Of pointers that are not ours: exposed, or another malloc's. Cold.
void free_other(void* pointer) {
  if (heap.contains(pointer)) return free_exposed(pointer);
  free_foreign(pointer);
}

void* realloc_other(void* pointer, size_t size) {
  if (!heap.contains(pointer)) return realloc_foreign(pointer, size);
  if (size != 0) return or_no_memory(reallocate_exposed(pointer, size, 1, false));
  free_exposed(pointer);
  return nullptr;
}

}  // namespace

void rdmalloc::engine::take_window(Heap& from) {
  ordinary_base = from.window().base();
  ordinary_size = from.window().size();
  (void)from.attach(&border);  // the first to attach, so there is room
}

extern "C" {

EXPORT void free(void* pointer) noexcept {
  if (is_ours(pointer)) [[likely]] {
    je_free(pointer);
    return;
  }
  free_other(pointer);
}

EXPORT void* realloc(void* pointer, size_t size) noexcept {
  if (pointer != nullptr && !is_ours(pointer)) [[unlikely]]
    return realloc_other(pointer, size);
  return or_no_memory(je_realloc(pointer, size));
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
  if (is_exposed(pointer)) [[unlikely]]
    return exposed_usable_size(pointer);
  if (!is_ours(pointer)) [[unlikely]]
    return foreign_usable_size(pointer);
  return usable(pointer, je_malloc_usable_size(pointer));
}

EXPORT void dallocx(void* pointer, int flags) noexcept {
  if (is_exposed(pointer)) [[unlikely]]
    return free_exposed(pointer);
  je_dallocx(pointer, flags);
}

EXPORT void sdallocx(void* pointer, size_t size, int flags) noexcept {
  if (is_exposed(pointer)) [[unlikely]]
    return free_exposed(pointer);
  je_sdallocx(pointer, size, flags);
}

EXPORT size_t sallocx(const void* pointer, int flags) noexcept {
  if (is_exposed(pointer)) [[unlikely]]
    return exposed_usable_size(pointer);
  return usable(pointer, je_sallocx(pointer, flags));
}

// Where the flags' alignment makes an object move, jemalloc copies up to the size class: with an
// exact extent that would read the neighbour's bytes, or beyond the region's end.
EXPORT void* rallocx(void* pointer, size_t size, int flags) noexcept {
  if (is_exposed(pointer)) [[unlikely]]
    return reallocate_exposed(pointer, size, alignment_of(flags), wants_zero(flags));
  const size_t misaligned = reinterpret_cast<uintptr_t>(pointer) & (alignment_of(flags) - 1);
  if (misaligned == 0) [[likely]]
    return je_rallocx(pointer, size, flags);
  const size_t class_size = je_sallocx(pointer, 0);
  const size_t old_size = usable(pointer, class_size);
  if (old_size == class_size) return je_rallocx(pointer, size, flags);
  ExactRequest exact(exact_when_aligned(size));
  void* moved = mallocx(size, flags);
  if (moved == nullptr) return nullptr;
  memcpy(moved, pointer, old_size < size ? old_size : size);
  je_free(pointer);
  return moved;
}

// jemalloc returns the old size when an object could not grow by `extra` but did grow to `size`.
EXPORT size_t xallocx(void* pointer, size_t size, size_t extra, int flags) noexcept {
  if (is_exposed(pointer)) [[unlikely]]
    return resize_exposed(pointer, size, extra, wants_zero(flags));
  (void)je_xallocx(pointer, size, extra, flags);
  return usable(pointer, je_sallocx(pointer, flags));
}

EXPORT size_t nallocx(size_t size, int flags) noexcept {
  const size_t class_size = je_nallocx(size, flags);
  if (class_size <= kLargestCached) return class_size;
  return os::page_ceil(size);
}

EXPORT int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  ExactRequest exact(exact_when_aligned(size));
  return je_posix_memalign(out, alignment, size);
}

EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  if (size == 0) size = 1;  // jemalloc aligns nothing to nothing
  ExactRequest exact(exact_when_aligned(size));
  return or_no_memory(je_memalign(power_of_two(alignment), size));
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return memalign(alignment, size);
}

EXPORT void* valloc(size_t size) noexcept { return memalign(os::kPageSize, size); }

EXPORT void* pvalloc(size_t size) noexcept {
  const size_t rounded = os::page_ceil(size);
  if (rounded < size) {
    errno = ENOMEM;
    return nullptr;
  }
  return valloc(rounded);
}

}  // extern "C"
