// jemalloc's configuration. Correctness rests on none of it: the hooks refuse what must not happen
// whatever MALLOC_CONF or a mallctl asks for.
extern "C" {

// Defaults that a program's own malloc_conf, or MALLOC_CONF, may change; bench/README.md says what
// each was chosen by. What decays is what arenas keep (arena_cache.cpp), and goes to the page heap.
[[gnu::visibility("default")]] extern const char* malloc_conf;
const char* malloc_conf =
    "dirty_decay_ms:1000,muzzy_decay_ms:0,tcache_gc_incr_bytes:1048576,"
    "lg_tcache_nslots_mul:3,slab_sizes:1-256:4|257-4096:6";

// Parsed last, wins over all others. Not exported, so that no program can replace it: extents of
// exact size through the one pair of hooks.
extern const char* malloc_conf_2_conf_harder;
const char* malloc_conf_2_conf_harder = "retain:false,oversize_threshold:0,hpa:false,dss:disabled";

// Cache-oblivious placement adds a page to every object above 14 KiB and starts it at a random line
// of the first one: pinned pages for nothing. No option of jemalloc 5.3.0's switches it off.
extern bool je_opt_cache_oblivious;
void __real_je_sz_boot(const void* classes, bool cache_oblivious);
void __wrap_je_sz_boot(const void* classes, bool);
void __wrap_je_sz_boot(const void* classes, bool) {
  je_opt_cache_oblivious = false;
  __real_je_sz_boot(classes, false);
}

}  // extern "C"
