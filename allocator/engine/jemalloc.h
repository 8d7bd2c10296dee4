// The names of jemalloc that the engine touches. Public ones were renamed to je_* in our copy of
// the archive (cmake/prepare_engine.sh) where we export a version of our own; internal ones are
// taken over by the linker's --wrap. Pointers to jemalloc's own structures stay opaque.
//
// Everything here is fixed to jemalloc 5.3; the build checks the version and every symbol.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

void* malloc(size_t size) noexcept;
int mallctlnametomib(const char* name, size_t* mib, size_t* length) noexcept;

// Renamed.
int je_mallctl(const char* name, void* old, size_t* old_size, void* next,
               size_t next_size) noexcept;
int je_mallctlbymib(const size_t* mib, size_t length, void* old, size_t* old_size, void* next,
                    size_t next_size) noexcept;
void* je_malloc(size_t size) noexcept;
void* je_calloc(size_t count, size_t size) noexcept;
void* je_mallocx(size_t size, int flags) noexcept;
void* je_malloc_default(size_t size) noexcept;  // what malloc's fast path leaves to it
void je_je_sdallocx_noflags(void* pointer, size_t size) noexcept;
void je_free(void* pointer) noexcept;
void je_dallocx(void* pointer, int flags) noexcept;
void je_sdallocx(void* pointer, size_t size, int flags) noexcept;
void* je_realloc(void* pointer, size_t size) noexcept;
int je_posix_memalign(void** out, size_t alignment, size_t size) noexcept;
void* je_memalign(size_t alignment, size_t size) noexcept;
size_t je_malloc_usable_size(void* pointer) noexcept;
size_t je_sallocx(const void* pointer, int flags) noexcept;
void* je_rallocx(void* pointer, size_t size, int flags) noexcept;
size_t je_xallocx(void* pointer, size_t size, size_t extra, int flags) noexcept;
size_t je_nallocx(size_t size, int flags) noexcept;

// This thread's; jemalloc 5.3's tsd_t, which starts with tcache_enabled.
[[gnu::tls_model("initial-exec")]] extern thread_local bool je_tsd_tls;

extern bool je_opt_prof;  // heap profiling is compiled in and on
extern bool je_opt_zero;  // MALLOC_CONF=zero:true
extern bool je_opt_junk_alloc;
extern bool je_opt_junk_free;
extern bool je_opt_tcache;
extern bool je_opt_utrace;
extern bool je_opt_xmalloc;

}  // extern "C"

namespace rdmalloc {
class Heap;
}

namespace rdmalloc::engine {

// Bytes that jemalloc mapped for its own metadata, outside the window.
size_t metadata_bytes();

// Gives what arenas keep back to the heap; does not repeat this at once unless it is urgent. Called
// outside jemalloc, under no lock.
void empty_arenas_for_block(size_t size, bool urgent);

// True once a program gave an arena its own extent hooks: from then on jemalloc may own memory
// outside the window.
bool has_custom_hooks();

// True when these hooks of an arena (jemalloc's ehooks_t) are ours and not a program's own.
bool has_our_hooks(const void* ehooks);

}  // namespace rdmalloc::engine
