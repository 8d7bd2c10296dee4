// jemalloc's configuration. Correctness does not depend on it: the hooks refuse what must not
// happen, whatever MALLOC_CONF or a mallctl asks for.
extern "C" {

// How many of the engine's pages a slab has. By its own choice some sizes get seven pages; where
// its page is built for kernels with larger ones (Debian's arm64 archive: 64 KiB), a program would
// hold half a MiB for the first object of such a size. A thread's cache has the objects of
// 2^lg_tcache_nslots_mul slabs: two where a slab is as large as eight others.
#if RDMALLOC_ENGINE_LG_PAGE <= 12
#define SLABS "slab_sizes:1-256:4|257-4096:6,lg_tcache_nslots_mul:3"
#elif RDMALLOC_ENGINE_LG_PAGE <= 14
#define SLABS "slab_sizes:1-256:1|257-4096:2,lg_tcache_nslots_mul:3"
#else
#define SLABS "slab_sizes:1-8192:1,lg_tcache_nslots_mul:1"
#endif

// Defaults that the program's malloc_conf or MALLOC_CONF may change; bench/README.md says how each
// was chosen. Decay applies to what arenas keep (arena_cache.cpp); it then goes to the page heap.
[[gnu::visibility("default")]] extern const char* malloc_conf;
const char* malloc_conf =
    "dirty_decay_ms:1000,muzzy_decay_ms:0,tcache_gc_incr_bytes:1048576," SLABS;

// Parsed last, so it wins over all others. Not exported, so that no program can replace it: it
// ensures that extents have their exact size and all come through the one pair of hooks.
extern const char* malloc_conf_2_conf_harder;
const char* malloc_conf_2_conf_harder = "retain:false,oversize_threshold:0,hpa:false,dss:disabled";

// Cache-oblivious placement adds a page to every object above 14 KiB and starts it at a random line
// of the first page: pinned pages for nothing. No option of jemalloc 5.3.0 turns it off.
extern bool je_opt_cache_oblivious;
void __real_je_sz_boot(const void* classes, bool cache_oblivious);
void __wrap_je_sz_boot(const void* classes, bool);
void __wrap_je_sz_boot(const void* classes, bool) {
  je_opt_cache_oblivious = false;
  __real_je_sz_boot(classes, false);
}

}  // extern "C"
