// Changes to jemalloc's thread caches. All of it runs inside malloc.
//
// A thread's first call makes its cache from an extent like any other. jemalloc does not notice
// when that extent is refused, and the thread next uses a cache that does not exist: a crash where
// malloc should report ENOMEM. Here such a thread continues without a cache.
//
// jemalloc fills an empty cache of one size by half at once. Where caches are large, a process that
// wants ten objects of each size would hold memory for a thousand. So the first filling is small,
// and each later one is at most twice what was requested since the previous one.
//
// One object in a cache keeps its whole slab. So before the heap grows by a block, the requesting
// thread gives its cache back.
#include "allocator/engine/thread_cache.h"

#include <stdint.h>

#include <algorithm>

#include "allocator/engine/front_cache.h"
#include "allocator/engine/jemalloc.h"

namespace rdmalloc::engine {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local bool refused = false;

// The first filling is this share of what jemalloc's would be.
constexpr unsigned kFirstShare = 8;

// The first fields of jemalloc 5.3's cache of one size.
struct CacheBin {
  void** head;
  uint64_t requests;  // since it was last filled or flushed
};

}  // namespace

void note_refusal() { refused = true; }

}  // namespace rdmalloc::engine

extern "C" {

void* je_tsd_fetch_slow(void* tsd, bool minimal);
void je_tcache_flush(void* tsd);

void je_tsd_slow_update(void* tsd);
bool __real_je_tsd_tcache_enabled_data_init(void* tsd);
bool __wrap_je_tsd_tcache_enabled_data_init(void* tsd) {
  using namespace rdmalloc::engine;
  refused = false;
  const bool failed = __real_je_tsd_tcache_enabled_data_init(tsd);
  // tcache_enabled is the first field of jemalloc 5.3's tsd. jemalloc's own function to clear it
  // also empties the cache, which does not exist here.
  auto* enabled = static_cast<bool*>(tsd);
  if (refused && *enabled) {
    *enabled = false;
    je_tsd_slow_update(tsd);
  }
  return failed;
}

// When the thread ends, or shall have no cache any more.
void __real_je_tcache_cleanup(void* tsd);
void __wrap_je_tcache_cleanup(void* tsd) {
  rdmalloc::engine::FrontCache::end();
  __real_je_tcache_cleanup(tsd);
}

void __real_je_arena_cache_bin_fill_small(void* tsdn, void* arena, rdmalloc::engine::CacheBin* bin,
                                          void* info, unsigned size_class, unsigned count);
void __wrap_je_arena_cache_bin_fill_small(void* tsdn, void* arena, rdmalloc::engine::CacheBin* bin,
                                          void* info, unsigned size_class, unsigned count) {
  const uint64_t first = std::max(1U, count / rdmalloc::engine::kFirstShare);
  const uint64_t wanted = std::max(first, 2 * bin->requests);
  __real_je_arena_cache_bin_fill_small(tsdn, arena, bin, info, size_class,
                                       static_cast<unsigned>(std::min<uint64_t>(count, wanted)));
}

}  // extern "C"

namespace rdmalloc::engine {

void* flush_thread_cache() {
  FrontCache::empty();
  if (!je_tsd_tls) return nullptr;
  // A thread that is ending has lost its cache; jemalloc notices here.
  je_tsd_fetch_slow(&je_tsd_tls, false);
  if (!je_tsd_tls) return nullptr;
  je_tcache_flush(&je_tsd_tls);
  return &je_tsd_tls;
}

}  // namespace rdmalloc::engine
