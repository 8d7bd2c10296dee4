// The exported malloc functions. A size of 4 to 256 KiB is one that this thread freed before, if
// its front cache has such. Other requests above kLargestSmall become blocks of the page heap, the
// rest is jemalloc's; pointers go back to where they came from. The C++ operators are jemalloc's
// own code and reach these functions by name (cmake/prepare_engine.sh).
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/engine/blocks.h"
#include "allocator/engine/foreign.h"
#include "allocator/engine/front_cache.h"
#include "allocator/engine/jemalloc.h"
#include "allocator/os/keep_errno.h"
#include "allocator/pages/heap.h"

#define EXPORT [[gnu::visibility("default")]]

using namespace rdmalloc;
using namespace rdmalloc::engine;

namespace {

bool is_ours(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) - borders.base < borders.ordinary;
}

bool is_block(const void* pointer) {
  return !is_ours(pointer) && heap.blocks().is_in_blocks(reinterpret_cast<uintptr_t>(pointer));
}

// With a hole in jemalloc's part of the window, is_ours() says no to all pointers, so that the path
// of small objects needs no test for holes.
bool is_small(const void* pointer) {
  return is_ours(pointer) || (heap.window().contains(pointer) && !is_block(pointer));
}

// jemalloc leaves errno alone where glibc sets it.
void* or_no_memory(void* pointer) {
  if (pointer == nullptr) [[unlikely]]
    errno = ENOMEM;
  return pointer;
}

// Like glibc: any alignment is accepted and rounded up.
size_t power_of_two(size_t alignment) {
  if (alignment <= alignof(max_align_t)) return alignof(max_align_t);
  if (alignment > SIZE_MAX / 2) return SIZE_MAX / 2 + 1;
  return size_t{1} << (64 - __builtin_clzl(alignment - 1));
}

// MALLOCX_LG_ALIGN: the lowest six bits; 1 without. MALLOCX_ZERO. MALLOCX_ARENA: from bit 20 on.
constexpr int kZero = 0x40;
size_t alignment_of(int flags) { return size_t{1} << (flags & 63); }
bool wants_zero(int flags) { return (flags & kZero) != 0; }
bool wants_arena(int flags) { return (flags >> 20) != 0; }

bool becomes_block(size_t size, int flags) { return is_large(size) && !wants_arena(flags); }

// The first request of the process, which may be small. libstdc++ asks for 71 KiB before main: as a
// block, it would hold 8 MiB ahead of need in every C++ program.
[[gnu::noinline]] void* allocate_first(size_t size, size_t alignment, bool zero) {
  constexpr size_t kMostOfFirst = size_t{128} << 10;
  if (is_large_once_started(size) && size > kMostOfFirst) {
    return or_no_memory(allocate_block(size, alignment, zero || je_opt_zero));
  }
  return or_no_memory(je_mallocx(size, __builtin_ctzl(alignment) | (zero ? kZero : 0)));
}

// All large requests of the family end here. Out of line: the path of small objects must need no
// stack frame.
[[gnu::noinline]] void* allocate_large(size_t size, size_t alignment, bool zero) {
  if (largest_small == 0) [[unlikely]]
    return allocate_first(size, alignment, zero);
  return or_no_memory(allocate_block(size, alignment, zero || je_opt_zero));
}

// What malloc does for all but small objects, if the front cache has none.
[[gnu::noinline]] void* allocate_beyond(size_t size) {
  if (largest_small == 0) [[unlikely]]
    return allocate_first(size, 1, false);
  if (FrontCache::has(size) && !front->passes(size)) return or_no_memory(FrontCache::fill(size));
  return size > largest_small ? allocate_large(size, 1, false) : je_malloc(size);
}

// Frees pointers that are not jemalloc's: a block's, or another malloc's.
[[gnu::noinline]] void free_other(void* pointer) {
  if (is_block(pointer)) [[likely]]
    return free_block(pointer);
  if (!heap.window().contains(pointer)) return free_foreign(pointer);
  if (may_free_small(pointer)) je_free(pointer);
}

// Moves one of jemalloc's objects to `to`, unless that is null.
void* move_object(void* to, void* pointer, size_t before, size_t size) {
  if (to == nullptr) return nullptr;
  copy_object(to, pointer, before < size ? before : size);
  free(pointer);
  return to;
}

// Turns one of jemalloc's objects into a block.
void* make_block_of(void* pointer, size_t size, size_t alignment, bool zero) {
  const size_t before = je_malloc_usable_size(pointer);
  return move_object(allocate_large(size, alignment, zero), pointer, before, size);
}

// Rounds up as jemalloc does for slab objects: to 8, to a multiple of 16, and above 64 to a
// multiple of a quarter of a power of two.
size_t rounded(size_t size) {
  if (size <= 8) return 8;
  if (size <= 64) return (size + 15) & ~size_t{15};
  const size_t quarter = size_t{1} << (61 - __builtin_clzl(size - 1));
  return (size + quarter - 1) & ~(quarter - 1);
}

// jemalloc's realloc takes the path that serves every option, which costs several times as much as
// malloc, a copy and free. Slab objects are never resized in place, so those three steps are done
// here, unless the heap profiler must see the call.
[[gnu::noinline]] void* realloc_small(void* pointer, size_t size) {
  constexpr size_t kLargestOfSlabs = 14336;
  const size_t before = je_malloc_usable_size(pointer);
  if (before > kLargestOfSlabs || size > kLargestOfSlabs || size == 0 || je_opt_prof) [[unlikely]]
    return or_no_memory(je_realloc(pointer, size));
  if (rounded(size) == before) return pointer;
  void* moved = je_malloc(size);
  if (moved == nullptr) [[unlikely]]
    return or_no_memory(nullptr);
  memcpy(moved, pointer, before < size ? before : size);
  je_free(pointer);
  return moved;
}

// Used when there are holes among jemalloc's objects.
void* realloc_with_holes(void* pointer, size_t size) {
  if (size > largest_small) return make_block_of(pointer, size, 1, false);
  const size_t before = je_malloc_usable_size(pointer);
  if (!heap.holes().has(pointer, before)) return or_no_memory(je_realloc(pointer, size));
  if (size != 0) return move_object(or_no_memory(je_malloc(size)), pointer, before, size);
  free(pointer);
  return nullptr;
}

[[gnu::noinline]] void* realloc_other(void* pointer, size_t size) {
  if (!heap.window().contains(pointer)) return realloc_foreign(pointer, size);
  if (is_small(pointer)) return realloc_with_holes(pointer, size);
  if (size != 0) return or_no_memory(reallocate_block(pointer, size, 1, false));
  free_block(pointer);
  return nullptr;
}

void* allocate_aligned(size_t alignment, size_t size) {
  if (FrontCache::has(size, alignment)) return malloc(size);
  return size > largest_small ? allocate_large(size, alignment, false)
                              : or_no_memory(je_memalign(alignment, size));
}

}  // namespace

extern "C" {

// These two begin with a cache line: a pair of small objects took up to a twentieth longer where
// they did not.
[[gnu::aligned(64)]] EXPORT void* malloc(size_t size) noexcept {
  if (size <= FrontCache::kBelow) [[likely]]
    return je_malloc(size);
  if (FrontCache::has(size)) {
    if (void* const object = front->take(size)) return object;
  }
  return allocate_beyond(size);
}

EXPORT void* calloc(size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return or_no_memory(nullptr);
  if (bytes > largest_small) return allocate_large(bytes, 1, true);
  return je_calloc(count, size);
}

EXPORT void* mallocx(size_t size, int flags) noexcept {
  if (!becomes_block(size, flags)) [[likely]]
    return je_mallocx(size, flags);
  return allocate_block(size, alignment_of(flags), wants_zero(flags) || je_opt_zero);
}

[[gnu::aligned(64)]] EXPORT void free(void* pointer) noexcept {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(pointer) - borders.base;
  if (offset < borders.small) [[likely]] {
    je_free(pointer);
    return;
  }
  if (offset < borders.front) {
    std::atomic<FrontCache::Entry>& entry = FrontCache::entry_of(pointer);
    if (const FrontCache::Entry known = entry.load(std::memory_order_relaxed); known != 0) {
      if (!front->give(pointer, known, entry)) [[unlikely]]
        FrontCache::give_slowly(pointer, known);
      return;
    }
  }
  if (offset < borders.ordinary) [[likely]] {
    je_free(pointer);
    return;
  }
  free_other(pointer);
}

EXPORT void* realloc(void* pointer, size_t size) noexcept {
  if (pointer == nullptr) return malloc(size);
  FrontCache::forget("realloc", pointer);
  if (!is_ours(pointer)) [[unlikely]]
    return realloc_other(pointer, size);
  if (size > largest_small) [[unlikely]]
    return make_block_of(pointer, size, 1, false);
  return realloc_small(pointer, size);
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
  if (FrontCache::is_cached(pointer)) [[unlikely]]
    die("malloc_usable_size", pointer);
  if (is_block(pointer)) [[unlikely]]
    return usable_size_of_block(pointer);
  if (!is_small(pointer)) [[unlikely]]
    return foreign_usable_size(pointer);
  return je_malloc_usable_size(pointer);
}

EXPORT void dallocx(void* pointer, int flags) noexcept {
  FrontCache::forget("dallocx", pointer);
  if (is_block(pointer)) [[unlikely]]
    return free_block(pointer);
  if (is_ours(pointer) || may_free_small(pointer)) je_dallocx(pointer, flags);
}

EXPORT void sdallocx(void* pointer, size_t size, int flags) noexcept {
  FrontCache::forget("sdallocx", pointer);
  if (is_block(pointer)) [[unlikely]]
    return free_block(pointer);
  if (is_ours(pointer) || may_free_small(pointer)) je_sdallocx(pointer, size, flags);
}

// jemalloc's operator new calls this when its fast path is not enough.
void* rdmalloc_malloc_default(size_t size) noexcept {
  return size <= FrontCache::kBelow ? je_malloc_default(size) : malloc(size);
}

// Its sized delete calls this.
void rdmalloc_sized_free(void* pointer, size_t size) noexcept {
  if (size > FrontCache::kBelow || !is_ours(pointer)) [[unlikely]] {
    free(pointer);
    return;
  }
  je_je_sdallocx_noflags(pointer, size);
}

EXPORT size_t sallocx(const void* pointer, int flags) noexcept {
  if (is_block(pointer)) [[unlikely]]
    return usable_size_of_block(pointer);
  return je_sallocx(pointer, flags);
}

EXPORT void* rallocx(void* pointer, size_t size, int flags) noexcept {
  FrontCache::forget("rallocx", pointer);
  if (is_block(pointer)) [[unlikely]]
    return reallocate_block(pointer, size, alignment_of(flags), wants_zero(flags));
  if (!becomes_block(size, flags)) [[likely]]
    return je_rallocx(pointer, size, flags);
  return make_block_of(pointer, size, alignment_of(flags), wants_zero(flags));
}

// jemalloc returns the old size when an object could not grow by `extra` but did grow to `size`.
EXPORT size_t xallocx(void* pointer, size_t size, size_t extra, int flags) noexcept {
  FrontCache::forget("xallocx", pointer);
  if (is_block(pointer)) [[unlikely]]
    return resize_block(pointer, size, extra, wants_zero(flags));
  (void)je_xallocx(pointer, size, extra, flags);
  return je_sallocx(pointer, flags);
}

EXPORT size_t nallocx(size_t size, int flags) noexcept {
  if (!becomes_block(size, flags)) [[likely]]
    return je_nallocx(size, flags);
  return size > LargeBlocks::kLargest ? 0 : os::page_ceil(size);
}

EXPORT int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  const bool is_sound = alignment >= sizeof(void*) && (alignment & (alignment - 1)) == 0;
  if (is_sound && FrontCache::has(size, alignment)) {
    const os::KeepErrno keep;
    void* const object = malloc(size);
    if (object != nullptr) *out = object;
    return object != nullptr ? 0 : ENOMEM;
  }
  if (!is_sound || !is_large(size)) return je_posix_memalign(out, alignment, size);
  void* const block = allocate_block(size, alignment, je_opt_zero);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}

EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  if (size == 0) size = 1;  // jemalloc cannot align an object of size 0
  return allocate_aligned(power_of_two(alignment), size);
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return memalign(alignment, size);
}

EXPORT void* valloc(size_t size) noexcept { return memalign(os::page_size(), size); }

EXPORT void* pvalloc(size_t size) noexcept {
  const size_t rounded = os::page_ceil(size);
  if (rounded < size) {
    errno = ENOMEM;
    return nullptr;
  }
  return valloc(rounded);
}

}  // extern "C"
