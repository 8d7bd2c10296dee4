// What we do differently about jemalloc's thread caches. All of it runs inside malloc.
//
// A thread's first call makes its cache, from an extent like any other. jemalloc takes no notice
// when that extent is refused, and the thread's next step is into a cache that is not there: a
// crash where malloc should say ENOMEM. Here such a thread goes on without a cache.
//
// An empty cache of one size is filled by half at once. Where caches are large, a process that
// wants ten objects of each size would have memory for a thousand: so the first filling is small,
// and each later one at most twice what was asked for since the one before.
//
// And one object in a cache keeps its slab. So before the heap grows by a block, the thread that
// asks for it gives its cache back.
#include "allocator/engine/thread_cache.h"

#include <stdint.h>

#include <algorithm>

#include "allocator/engine/jemalloc.h"

namespace rdmalloc::engine {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local bool refused = false;

// The first filling is this part of what jemalloc's would be.
constexpr unsigned kFirstShare = 8;

// How jemalloc 5.3's cache of one size starts.
struct CacheBin {
  void** head;
  uint64_t requests;  // since it was last filled or flushed
};

}  // namespace

void note_refusal() { refused = true; }

}  // namespace rdmalloc::engine

extern "C" {

// Of this thread; jemalloc 5.3's tsd_t, which starts with tcache_enabled.
[[gnu::tls_model("initial-exec")]] extern thread_local bool je_tsd_tls;
void* je_tsd_fetch_slow(void* tsd, bool minimal);
void je_tcache_flush(void* tsd);

void je_tsd_slow_update(void* tsd);
bool __real_je_tsd_tcache_enabled_data_init(void* tsd);
bool __wrap_je_tsd_tcache_enabled_data_init(void* tsd) {
  using namespace rdmalloc::engine;
  refused = false;
  const bool failed = __real_je_tsd_tcache_enabled_data_init(tsd);
  // tcache_enabled is the first field of jemalloc 5.3's tsd. Its own way to clear it also empties
  // the cache, which is not there.
  auto* enabled = static_cast<bool*>(tsd);
  if (refused && *enabled) {
    *enabled = false;
    je_tsd_slow_update(tsd);
  }
  return failed;
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

void flush_thread_cache() {
  if (!je_tsd_tls) return;
  // A thread that is ending has lost its cache: this is where jemalloc takes notice.
  je_tsd_fetch_slow(&je_tsd_tls, false);
  if (je_tsd_tls) je_tcache_flush(&je_tsd_tls);
}

}  // namespace rdmalloc::engine
