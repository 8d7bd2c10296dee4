// A thread's first call makes its cache, from an extent like any other. jemalloc takes no notice
// when that extent is refused, and the thread's next step is into a cache that is not there: a
// crash where malloc should say ENOMEM. Here such a thread goes on without a cache.
#include "allocator/engine/thread_cache.h"

#include "allocator/engine/jemalloc.h"

namespace rdmalloc::engine {
namespace {

[[gnu::tls_model("initial-exec")]] thread_local bool refused = false;

}  // namespace

void note_refusal() { refused = true; }

}  // namespace rdmalloc::engine

extern "C" {

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

}  // extern "C"
