// Large objects of exact size, to the page. jemalloc rounds every size up to one of four classes
// per doubling, by up to a quarter; pinned padding is resident padding, and it was the larger half
// of what never returning memory cost (bench/README.md).
//
// An object keeps its size class, and its extent is cut to the pages that were asked for. jemalloc
// keeps both apart (edata's size and its szind), so everything that manages extents works
// unchanged. What reads the class and then touches memory up to it must not: copying in realloc
// (here), junk filling (switched off in config.cpp), malloc_usable_size and its kin
// (malloc_family.cpp). Thread caches hand an object of one class to any request of that class, so
// sizes they hold stay as they are; up to kLargestCached the classes are whole pages apart anyway.
//
// The size asked for reaches jemalloc's page allocator through a thread-local.
#include "allocator/engine/exact_size.h"

#include <string.h>

#include "allocator/engine/jemalloc.h"
#include "allocator/os/memory.h"

namespace rdmalloc::engine {
namespace {

// What the calls below are about; set for the duration of one call into jemalloc.
struct Request {
  size_t bytes = 0;         // extent size wanted; 0: none, sizes stay as jemalloc has them
  unsigned size_class = 0;  // class of the size asked for
  size_t expand_to = 0;     // in place only: a class size above the present one
  void* edata = nullptr;    // in place only, out: the object's extent
};

// initial-exec, as jemalloc's own: the general model may call malloc.
[[gnu::tls_model("initial-exec")]] thread_local Request request;

constexpr size_t kCacheLine = 64;

// jemalloc's index of the class of a large size: four classes per doubling, from 16 bytes, after
// one tiny class (its sc.h). is_engine_known() checks it against jemalloc's own table.
unsigned class_of(size_t size) {
  const unsigned lg = 63U - static_cast<unsigned>(__builtin_clzl((size << 1) - 1));
  const unsigned group = lg - 6;
  const size_t within = (size - 1) >> (lg - 3);
  return 1 + group * 4 + static_cast<unsigned>(within & 3);
}

constexpr bool is_exact(size_t size) { return size > kLargestCached && size <= kLargestExact; }

}  // namespace

ExactRequest::ExactRequest(size_t size) {
  if (is_exact(size)) request = {os::page_ceil(size), class_of(size), 0, nullptr};
}
ExactRequest::~ExactRequest() { request.bytes = 0; }

}  // namespace rdmalloc::engine

using namespace rdmalloc;
using namespace rdmalloc::engine;

extern "C" {

extern size_t je_sz_index2size_tab[];
void je_large_dalloc(void* tsdn, void* edata);
void* je_arena_palloc(void* tsdn, void* arena, size_t class_size, size_t alignment, bool zero,
                      void* tcache);

// Cache-oblivious placement adds a page to every large object and starts it at a random line of the
// first one. Both would be lost on exact extents; no option of jemalloc's switches it off.
extern bool je_opt_cache_oblivious;
void __real_je_sz_boot(const void* classes, bool cache_oblivious);
void __wrap_je_sz_boot(const void* classes, bool) {
  je_opt_cache_oblivious = false;
  __real_je_sz_boot(classes, false);
}

void* __real_je_pa_alloc(void* tsdn, void* shard, size_t size, size_t alignment, bool slab,
                         unsigned size_class, bool zero, bool guarded, bool* deferred);
void* __wrap_je_pa_alloc(void* tsdn, void* shard, size_t size, size_t alignment, bool slab,
                         unsigned size_class, bool zero, bool guarded, bool* deferred) {
  const bool is_meant = !slab && request.bytes != 0 && request.size_class == size_class;
  if (is_meant && request.bytes < size) size = request.bytes;
  return __real_je_pa_alloc(tsdn, shard, size, alignment, slab, size_class, zero, guarded,
                            deferred);
}

bool __real_je_pa_expand(void* tsdn, void* shard, void* edata, size_t old_size, size_t new_size,
                         unsigned size_class, bool zero, bool* deferred);
bool __wrap_je_pa_expand(void* tsdn, void* shard, void* edata, size_t old_size, size_t new_size,
                         unsigned size_class, bool zero, bool* deferred) {
  if (request.bytes != 0) {
    new_size = request.bytes;
    size_class = request.size_class;
  }
  return __real_je_pa_expand(tsdn, shard, edata, old_size, new_size, size_class, zero, deferred);
}

bool __real_je_pa_shrink(void* tsdn, void* shard, void* edata, size_t old_size, size_t new_size,
                         unsigned size_class, bool* deferred);
bool __wrap_je_pa_shrink(void* tsdn, void* shard, void* edata, size_t old_size, size_t new_size,
                         unsigned size_class, bool* deferred) {
  if (request.bytes != 0) {
    new_size = request.bytes;
    size_class = request.size_class;
  }
  return __real_je_pa_shrink(tsdn, shard, edata, old_size, new_size, size_class, deferred);
}

void* __real_je_arena_malloc_hard(void* tsdn, void* arena, size_t size, unsigned size_class,
                                  bool zero);
void* __wrap_je_arena_malloc_hard(void* tsdn, void* arena, size_t size, unsigned size_class,
                                  bool zero) {
  ExactRequest exact(size);
  return __real_je_arena_malloc_hard(tsdn, arena, size, size_class, zero);
}

// Changes a large object in place. jemalloc compares size classes here, so it is shown one above
// the present one when the extent must grow: pa_expand() above then puts the real figures in.
bool __real_je_large_ralloc_no_move(void* tsdn, void* edata, size_t least, size_t most, bool zero);
bool __wrap_je_large_ralloc_no_move(void* tsdn, void* edata, size_t least, size_t most, bool zero) {
  if (request.bytes != 0) {
    request.edata = edata;
    if (request.expand_to != 0) least = most = request.expand_to;
  }
  return __real_je_large_ralloc_no_move(tsdn, edata, least, most, zero);
}

bool __real_je_arena_ralloc_no_move(void* tsdn, void* pointer, size_t old_class, size_t size,
                                    size_t extra, bool zero, size_t* new_class);

}  // extern "C"

namespace rdmalloc::engine {
namespace {

enum class InPlace : uint8_t { kDone, kMustMove };

// For an object and a size both above kLargestCached. The object's extent goes to `*edata` when the
// answer is kMustMove.
InPlace resize_in_place(void* tsdn, void* pointer, size_t old_class, size_t size, bool zero,
                        void** edata) {
  const size_t extent = extent_size(pointer);
  const size_t wanted = os::page_ceil(size);
  const unsigned size_class = class_of(size);
  const unsigned old_index = class_of(old_class);
  if (wanted == extent) return InPlace::kDone;
  size_t ignored = 0;
  if (wanted < extent) {
    // Within a class the tail is not worth a split; and an object that cannot shrink stays.
    if (size_class == old_index) return InPlace::kDone;
    ExactRequest exact(size);
    (void)__real_je_arena_ralloc_no_move(tsdn, pointer, old_class, size, 0, false, &ignored);
    return InPlace::kDone;
  }
  ExactRequest exact(size);
  const unsigned above = size_class > old_index ? size_class : old_index + 1;
  request.expand_to = je_sz_index2size_tab[above];
  const bool failed =
      __real_je_arena_ralloc_no_move(tsdn, pointer, old_class, size, 0, zero, &ignored);
  *edata = request.edata;
  return failed ? InPlace::kMustMove : InPlace::kDone;
}

}  // namespace
}  // namespace rdmalloc::engine

extern "C" void* __real_je_arena_ralloc(void* tsdn, void* arena, void* pointer, size_t old_class,
                                        size_t size, size_t alignment, bool zero, void* tcache,
                                        void* hook_args);

namespace rdmalloc::engine {
namespace {

// Kept out of line: what small objects go through must need no frame.
[[gnu::noinline]] void* reallocate_large(void* tsdn, void* arena, void* pointer, size_t old_class,
                                         size_t size, size_t alignment, bool zero, void* tcache,
                                         void* hook_args) {
  if (!is_exact(old_class) || !is_exact(size)) {
    ExactRequest exact(size);
    return __real_je_arena_ralloc(tsdn, arena, pointer, old_class, size, alignment, zero, tcache,
                                  hook_args);
  }
  void* edata = nullptr;
  if (resize_in_place(tsdn, pointer, old_class, size, zero, &edata) == InPlace::kDone) {
    return pointer;
  }
  const unsigned size_class = class_of(size);
  ExactRequest exact(size);
  void* moved =
      alignment <= kCacheLine
          ? __real_je_arena_malloc_hard(tsdn, arena, size, size_class, zero)
          : je_arena_palloc(tsdn, arena, je_sz_index2size_tab[size_class], alignment, zero, tcache);
  if (moved == nullptr) return nullptr;
  memcpy(moved, pointer, extent_size(pointer));  // smaller than the new one, or it had not to move
  je_large_dalloc(tsdn, edata);
  return moved;
}

}  // namespace
}  // namespace rdmalloc::engine

extern "C" {

void* __wrap_je_arena_ralloc(void* tsdn, void* arena, void* pointer, size_t old_class, size_t size,
                             size_t alignment, bool zero, void* tcache, void* hook_args) {
  if (size <= kLargestCached) {
    return __real_je_arena_ralloc(tsdn, arena, pointer, old_class, size, alignment, zero, tcache,
                                  hook_args);
  }
  return reallocate_large(tsdn, arena, pointer, old_class, size, alignment, zero, tcache,
                          hook_args);
}

// Reached from xallocx alone. False means done, as everywhere in jemalloc.
bool __wrap_je_arena_ralloc_no_move(void* tsdn, void* pointer, size_t old_class, size_t size,
                                    size_t extra, bool zero, size_t* new_class) {
  if (!is_exact(old_class) || !is_exact(size)) {
    // Small to large: only to exactly the size, because `extra` has no exact form in one call.
    const bool grows = !is_exact(old_class) && is_exact(size + extra);
    ExactRequest exact(size);
    return __real_je_arena_ralloc_no_move(tsdn, pointer, old_class, size, grows ? 0 : extra, zero,
                                          new_class);
  }
  void* edata = nullptr;
  InPlace done = resize_in_place(tsdn, pointer, old_class, size + extra, zero, &edata);
  if (done == InPlace::kMustMove && extra != 0) {
    done = extent_size(pointer) >= size
               ? InPlace::kDone
               : resize_in_place(tsdn, pointer, old_class, size, zero, &edata);
  }
  *new_class = je_malloc_usable_size(pointer);
  return done == InPlace::kMustMove;
}

}  // extern "C"

namespace rdmalloc::engine {

bool is_engine_known() {
  for (size_t size = kLargestCached; size <= kLargestExact; size += size / 4) {
    const unsigned size_class = class_of(size);
    if (je_sz_index2size_tab[size_class] < size) return false;
    if (je_sz_index2size_tab[size_class - 1] >= size) return false;
  }
  return true;
}

}  // namespace rdmalloc::engine
