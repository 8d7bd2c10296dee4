// jemalloc's configuration. Correctness rests on none of it: the hooks refuse what must not happen
// whatever MALLOC_CONF or a mallctl asks for.
#include "allocator/engine/jemalloc.h"

#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)
#define LARGEST_CACHED 32768

static_assert(LARGEST_CACHED == rdmalloc::engine::kLargestCached);

extern "C" {

// Defaults that a program's own malloc_conf, or MALLOC_CONF, may change. What decays is what arenas
// keep (arena_cache.cpp), and goes to the extent pool.
[[gnu::visibility("default")]] extern const char* malloc_conf;
const char* malloc_conf = "dirty_decay_ms:1000,muzzy_decay_ms:0";

// Parsed last, wins over all others. Not exported, so that no program can replace it.
//  retain, hpa, dss, oversize_threshold: extents of exact size through the one pair of hooks;
//  tcache_max, junk: what exact large sizes rest on (exact_size.cpp).
extern const char* malloc_conf_2_conf_harder;
const char* malloc_conf_2_conf_harder =
    "retain:false,oversize_threshold:0,hpa:false,dss:disabled,"
    "junk:false,tcache_max:" STRINGIFY(LARGEST_CACHED);

}  // extern "C"
