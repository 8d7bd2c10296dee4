// Replaces jemalloc's default extent hooks at link time (--wrap), from the first byte and for all
// arenas, no matter who creates them. Also wraps its metadata mappings, which stay outside the
// window and are only counted. They precede everything else in a process, so they start the heap.
//
// All of this runs inside malloc, sometimes with jemalloc's locks held. In jemalloc's hooks true
// means failure or refusal.
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>

#include "allocator/engine/blocks.h"
#include "allocator/engine/front_cache.h"
#include "allocator/engine/jemalloc.h"
#include "allocator/fork.h"
#include "allocator/message.h"
#include "allocator/os/standard_error.h"
#include "allocator/pages/heap.h"

namespace rdmalloc::engine {
namespace {

std::atomic<size_t> metadata{0};
std::atomic<bool> custom_hooks{false};

// Runs before everything else in a process: jemalloc maps metadata under its initialisation lock,
// so no other thread is in malloc yet, and none of jemalloc's own fork handlers is registered.
void start_once() {
  if (heap.booted()) return;
  os::remember_standard_error();
  heap.boot();
  take_borders(heap);
  heap.blocks().set_reclaim(empty_arenas_for_block);
  take_large_sizes();
  register_fork_handlers();
}

void* allocate(void* new_addr, size_t size, size_t alignment, bool* zero, bool* commit) {
  start_once();
  if (heap.window().size() == 0) {
    // Not even the smallest window could be reserved. Refusing the first extent would crash
    // jemalloc, so this process runs without our heap.
    *zero = true;
    *commit = true;
    return new_addr == nullptr ? os::map_aligned(size, alignment) : nullptr;
  }
  void* address =
      heap.extents().allocate(new_addr, size, std::max(alignment, os::page_size()), zero);
  if (address != nullptr) *commit = true;
  return address;
}

}  // namespace

size_t metadata_bytes() { return metadata.load(std::memory_order_relaxed); }
bool has_custom_hooks() { return custom_hooks.load(std::memory_order_relaxed); }

}  // namespace rdmalloc::engine

using namespace rdmalloc;
using namespace rdmalloc::engine;

extern "C" {

void* __wrap_je_ehooks_default_alloc_impl(void*, void* new_addr, size_t size, size_t alignment,
                                          bool* zero, bool* commit, unsigned) {
  return allocate(new_addr, size, alignment, zero, commit);
}
bool __wrap_je_ehooks_default_dalloc_impl(void* address, size_t size) {
  return !heap.extents().release(address, size);
}
void __wrap_je_ehooks_default_destroy_impl(void* address, size_t size) {
  (void)heap.extents().release(address, size);
}
bool __wrap_je_ehooks_default_commit_impl(void*, size_t, size_t) { return false; }
bool __wrap_je_ehooks_default_decommit_impl(void*, size_t, size_t) { return true; }
bool __wrap_je_ehooks_default_purge_lazy_impl(void*, size_t, size_t) { return true; }
bool __wrap_je_ehooks_default_purge_forced_impl(void*, size_t, size_t) { return true; }
bool __wrap_je_ehooks_default_split_impl() { return false; }
bool __wrap_je_ehooks_default_merge_impl(void*, void* lower, void* upper) {
  return heap.regions().find(lower) != heap.regions().find(upper);
}
void __wrap_je_ehooks_default_zero_impl(void* address, size_t size) { memset(address, 0, size); }
// Guard pages are PROT_NONE pages in the middle of a region; no device could read across them.
void __wrap_je_ehooks_default_guard_impl(void*, void*) {}
void __wrap_je_ehooks_default_unguard_impl(void*, void*) {}

// The same hooks as a table, for arenas whose own hooks delegate to the default ones. Its type is
// extent_hooks_t from the public header, written out.
struct ExtentHooks {
  void* (*alloc)(ExtentHooks*, void*, size_t, size_t, bool*, bool*, unsigned);
  bool (*dalloc)(ExtentHooks*, void*, size_t, bool, unsigned);
  void (*destroy)(ExtentHooks*, void*, size_t, bool, unsigned);
  bool (*commit)(ExtentHooks*, void*, size_t, size_t, size_t, unsigned);
  bool (*decommit)(ExtentHooks*, void*, size_t, size_t, size_t, unsigned);
  bool (*purge_lazy)(ExtentHooks*, void*, size_t, size_t, size_t, unsigned);
  bool (*purge_forced)(ExtentHooks*, void*, size_t, size_t, size_t, unsigned);
  bool (*split)(ExtentHooks*, void*, size_t, size_t, size_t, bool, unsigned);
  bool (*merge)(ExtentHooks*, void*, size_t, void*, size_t, bool, unsigned);
};

extern const ExtentHooks __wrap_je_ehooks_default_extent_hooks;
const ExtentHooks __wrap_je_ehooks_default_extent_hooks = {
    [](ExtentHooks*, void* new_addr, size_t size, size_t alignment, bool* zero, bool* commit,
       unsigned arena) {
      return __wrap_je_ehooks_default_alloc_impl(nullptr, new_addr, size, alignment, zero, commit,
                                                 arena);
    },
    [](ExtentHooks*, void* address, size_t size, bool, unsigned) {
      return __wrap_je_ehooks_default_dalloc_impl(address, size);
    },
    [](ExtentHooks*, void* address, size_t size, bool, unsigned) {
      __wrap_je_ehooks_default_destroy_impl(address, size);
    },
    [](ExtentHooks*, void* address, size_t, size_t offset, size_t length, unsigned) {
      return __wrap_je_ehooks_default_commit_impl(address, offset, length);
    },
    [](ExtentHooks*, void* address, size_t, size_t offset, size_t length, unsigned) {
      return __wrap_je_ehooks_default_decommit_impl(address, offset, length);
    },
    [](ExtentHooks*, void* address, size_t, size_t offset, size_t length, unsigned) {
      return __wrap_je_ehooks_default_purge_lazy_impl(address, offset, length);
    },
    [](ExtentHooks*, void* address, size_t, size_t offset, size_t length, unsigned) {
      return __wrap_je_ehooks_default_purge_forced_impl(address, offset, length);
    },
    [](ExtentHooks*, void*, size_t, size_t, size_t, bool, unsigned) {
      return __wrap_je_ehooks_default_split_impl();
    },
    [](ExtentHooks*, void* lower, size_t, void* upper, size_t, bool, unsigned) {
      return __wrap_je_ehooks_default_merge_impl(nullptr, lower, upper);
    },
};

// jemalloc's ehooks_t.
struct ArenaHooks {
  unsigned arena;
  std::atomic<const ExtentHooks*> hooks;
};

extern unsigned je_narenas_auto;
void __real_je_ehooks_init(void* ehooks, const ExtentHooks* hooks, unsigned arena);
void __wrap_je_ehooks_init(void* ehooks, const ExtentHooks* hooks, unsigned arena) {
  if (hooks != &__wrap_je_ehooks_default_extent_hooks) {
    custom_hooks = true;
    // A program that gives hooks to the arenas of its malloc expects large objects there too.
    if (arena < je_narenas_auto) leave_large_sizes_to_jemalloc();
  }
  __real_je_ehooks_init(ehooks, hooks, arena);
}

// jemalloc tries out here what the kernel can do with pages, and reads two files for it: twelve
// system calls, whose answers matter only to mappings that it makes itself. It makes none.
bool __real_je_pages_boot();
bool __wrap_je_pages_boot() {
  constexpr size_t kPage = size_t{1} << RDMALLOC_ENGINE_LG_PAGE;
  return os::page_size() > kPage && __real_je_pages_boot();
}

void* __wrap_je_pages_map(void* new_addr, size_t size, size_t alignment, bool*) {
  return new_addr == nullptr ? os::map_aligned(size, alignment) : nullptr;
}

void* __real_je_extent_alloc_mmap(void* new_addr, size_t size, size_t alignment, bool* zero,
                                  bool* commit);
void* __wrap_je_extent_alloc_mmap(void* new_addr, size_t size, size_t alignment, bool* zero,
                                  bool* commit) {
  start_once();
  void* got = __real_je_extent_alloc_mmap(new_addr, size, alignment, zero, commit);
  if (got == nullptr) return nullptr;
  metadata += size;
  // Where the kernel gives huge pages unasked, a few bytes would bring in a whole one.
  constexpr size_t kSparse = size_t{2} << 20;
  if (size >= kSparse) rdmalloc::os::ask_for_base_pages(got, size);
  return got;
}

bool __real_je_extent_dalloc_mmap(void* address, size_t size);
bool __wrap_je_extent_dalloc_mmap(void* address, size_t size) {
  const bool refused = __real_je_extent_dalloc_mmap(address, size);
  if (!refused) metadata -= size;
  return refused;
}

}  // extern "C"

bool rdmalloc::engine::has_our_hooks(const void* ehooks) {
  return static_cast<const ArenaHooks*>(ehooks)->hooks.load(std::memory_order_acquire) ==
         &__wrap_je_ehooks_default_extent_hooks;
}
