// What arenas keep of the extents they free. If they kept nothing, every freed slab and medium
// object would go down to the page heap, and programs that free and reallocate them would need up
// to half as much CPU time again. If they decayed as jemalloc does, each arena would hoard pages
// that the others cannot use, and the heap would grow by memory it already has (bench/README.md has
// the figures). So arenas keep small extents, as jemalloc does, but
//  - an extent above kLargestKept goes down at once (unless decay is off, or left to background
//    threads: then jemalloc keeps it until the heap grows);
//  - before the heap grows, every arena gives back all it keeps, and if a block makes it grow, so
//    does the requesting thread's cache. This is not repeated at once: in a steady state it would
//    only carry the same extents to and fro.
//
// Runs inside malloc with no lock of jemalloc held: both are entered from the top of its page
// allocator.
#include <sys/types.h>

#include <atomic>

#include "allocator/engine/jemalloc.h"
#include "allocator/engine/thread_cache.h"
#include "allocator/pages/heap.h"

extern "C" {

// jemalloc's table of arenas: null where there is no arena yet.
extern std::atomic<void*> je_arenas[];
extern unsigned je_narenas_auto;
void* je_arena_get_ehooks(void* arena);
void je_arena_decay(void* tsdn, void* arena, bool is_background_thread, bool all);

}  // extern "C"

namespace rdmalloc::engine {
namespace {

constexpr size_t kLargestKept = size_t{128} << 10;

// By how much the heap would have grown since the arenas were last emptied. Emptying them again
// pays once this reaches a share of what is held.
std::atomic<size_t> wanted_since{0};
constexpr size_t kShareOfHeld = 32;

bool may_empty(size_t wanted) {
  size_t since = wanted_since.fetch_add(wanted, std::memory_order_relaxed) + wanted;
  return since >= heap.budget().charges().held() / kShareOfHeld &&
         wanted_since.compare_exchange_strong(since, 0, std::memory_order_relaxed);
}

// Empties only arenas that jemalloc made for itself, which no mallctl destroys, and of these none
// with the program's own hooks: a hook that holds a lock and calls malloc would deadlock.
void empty_arenas(void* tsdn) {
  for (unsigned i = 0; i < je_narenas_auto; ++i) {
    void* arena = je_arenas[i].load(std::memory_order_acquire);
    if (arena != nullptr && has_our_hooks(je_arena_get_ehooks(arena))) {
      je_arena_decay(tsdn, arena, false, true);
    }
  }
}

}  // namespace

// Without the thread's data jemalloc makes up some, on the stack.
void empty_arenas_for_block(size_t size, bool urgent) {
  if (!urgent && !may_empty(size)) return;
  empty_arenas(flush_thread_cache());
}

}  // namespace rdmalloc::engine

using namespace rdmalloc;
using namespace rdmalloc::engine;

extern "C" {

// jemalloc calls this the oversize threshold and has one for all arenas. Its option of that name
// also sends all such requests to one arena, which would make threads wait for each other.
bool __real_je_pac_init(void* tsdn, void* pac, void* base, void* emap, void* edata_cache, void* now,
                        size_t oversize_threshold, ssize_t dirty_decay_ms, ssize_t muzzy_decay_ms,
                        void* stats, void* stats_mutex);
bool __wrap_je_pac_init(void* tsdn, void* pac, void* base, void* emap, void* edata_cache, void* now,
                        size_t, ssize_t dirty_decay_ms, ssize_t muzzy_decay_ms, void* stats,
                        void* stats_mutex) {
  return __real_je_pac_init(tsdn, pac, base, emap, edata_cache, now, kLargestKept, dirty_decay_ms,
                            muzzy_decay_ms, stats, stats_mutex);
}

// Called when an arena keeps nothing that fits. `expanded` is an object to grow in place, or null.
void* __real_je_ecache_alloc_grow(void* tsdn, void* pac, void* ehooks, void* ecache, void* expanded,
                                  size_t size, size_t alignment, bool zero, bool guarded);
void* __wrap_je_ecache_alloc_grow(void* tsdn, void* pac, void* ehooks, void* ecache, void* expanded,
                                  size_t size, size_t alignment, bool zero, bool guarded) {
  const bool in_place = expanded != nullptr;
  if (!in_place && heap.extents().must_grow(size, alignment) && may_empty(size)) empty_arenas(tsdn);
  void* extent = __real_je_ecache_alloc_grow(tsdn, pac, ehooks, ecache, expanded, size, alignment,
                                             zero, guarded);
  if (extent != nullptr || in_place) return extent;
  // No more memory may be held: what the arenas keep is the last resort.
  empty_arenas(tsdn);
  extent = __real_je_ecache_alloc_grow(tsdn, pac, ehooks, ecache, expanded, size, alignment, zero,
                                       guarded);
  if (extent == nullptr) note_refusal();
  return extent;
}

}  // extern "C"
