// The functions of include/rdmalloc/pool.h, over the library's own memory.
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "allocator/last_error.h"
#include "allocator/os/cache_line.h"
#include "allocator/os/memory.h"
#include "allocator/pages/heap.h"
#include "regcache/caller_struct.h"
#include "regcache/domain/domain.h"
#include "regcache/pool/pool_memory.h"
#include "regcache/pool/pools.h"

namespace rdmalloc {
namespace {

constexpr size_t kLongestBuffer = size_t{1} << 30;
constexpr size_t kCoarsestAlignment = size_t{2} << 20;
constexpr size_t kMostBuffers = SIZE_MAX / kLongestBuffer / 4;

class HeapMemory final : public PoolMemory {
 public:
  void* allocate(size_t size, size_t alignment, unsigned flags) noexcept override {
    return rdm_alloc(size, alignment, flags);
  }
  void release(void* pointer) noexcept override { rdm_free(pointer); }
  int lookup(rdm_domain* domain, const void* address, size_t length,
             rdm_mr* out) noexcept override {
    return rdm_lookup(domain, address, length, out);
  }
  rdm_stats stats() noexcept override {
    heap.look_at_limits();
    rdm_stats now{};
    (void)rdm_stats_get(&now, sizeof now);
    return now;
  }
  bool hold(rdm_domain* domain) noexcept override {
    return reinterpret_cast<Domain*>(domain)->hold();
  }
  void let_go(rdm_domain* domain) noexcept override { reinterpret_cast<Domain*>(domain)->let_go(); }
  bool takes_pinned_only(rdm_domain* domain) noexcept override {
    return (reinterpret_cast<Domain*>(domain)->parts().device.limits().abilities &
            RDM_BACKEND_ON_DEMAND) == 0;
  }
  bool takes_exposed_only(rdm_domain* domain) noexcept override {
    return reinterpret_cast<Domain*>(domain)->parts().mrs.is_exposed_only();
  }
  const char* why(rdm_domain* domain) noexcept override {
    return reinterpret_cast<Domain*>(domain)->why();
  }
  const Window& window() const noexcept override { return heap.window(); }
  const Region* region_of(const void* address) const noexcept override {
    return heap.regions().find(address);
  }
  const PageMarks& marks() const noexcept override { return heap.marks(); }
  bool attach(RegionObserver* observer) noexcept override {
    return ok(heap.publisher().attach(observer));
  }
  void reopen(void* address, size_t length) noexcept override {
    const auto from = reinterpret_cast<uintptr_t>(address);
    const uintptr_t start = os::page_floor(from);
    heap.holes().reopen(start, os::page_ceil(from + length) - start);
  }
};

constinit HeapMemory memory;
constinit Pools pools(memory);
constinit pthread_once_t forks_heard_of = PTHREAD_ONCE_INIT;
constinit int fork_error = 0;

bool hears_of_forks() {
  pthread_once(&forks_heard_of, [] {
    fork_error = pthread_atfork([] { pools.before_fork(); }, [] { pools.after_fork_in_parent(); },
                                [] { pools.after_fork_in_child(); });
  });
  return fork_error == 0;
}

Pool* pool_of(rdm_pool* handle) { return reinterpret_cast<Pool*>(handle); }

// Null, or what is wrong with the options.
const char* check(const rdm_pool_options& options) {
  if (options.buffer_bytes == 0) return "buffer_bytes is 0: set it to the length of a buffer";
  if (options.buffer_bytes > kLongestBuffer) return "buffer_bytes is above 1 GiB";
  if ((options.alignment & (options.alignment - 1)) != 0) return "alignment is no power of two";
  if (options.alignment > kCoarsestAlignment) return "alignment is above 2 MiB";
  if ((options.flags & ~unsigned{RDM_EXPOSED}) != 0)
    return "flags have bits that are not known here";
  if (options.most != 0 && options.reserve > options.most) return "reserve is above most";
  if (options.reserve > kMostBuffers || options.grow_by > kMostBuffers) {
    return "reserve or grow_by is more buffers than an address space has room for";
  }
  return nullptr;
}

PoolSettings settings_of(rdm_domain* domain, const rdm_pool_options& options) {
  PoolSettings settings;
  settings.domain = domain;
  settings.buffer_bytes = options.buffer_bytes;
  settings.alignment = options.alignment == 0 ? os::kCacheLine : options.alignment;
  settings.reserve = options.reserve;
  settings.most = options.most == 0 ? SIZE_MAX : options.most;
  settings.grow_by = options.grow_by;
  settings.flags = options.flags;
  return settings;
}

int create(rdm_domain* domain, const rdm_pool_options& options, rdm_pool** out, Message* why) {
  if (const char* wrong = check(options); wrong != nullptr) {
    why->add(wrong);
    return RDM_INVALID;
  }
  if (!hears_of_forks()) {
    why->add("no memory for fork handlers");
    return RDM_SYSTEM;
  }
  Pool* pool = nullptr;
  const int status = pools.create(settings_of(domain, options), &pool, why);
  if (status == RDM_OK) *out = reinterpret_cast<rdm_pool*>(pool);
  return status;
}

int errno_of(int status) {
  switch (status) {
    case RDM_OUT_OF_BUDGET:
      return ENOMEM;
    case RDM_NOT_REGISTERED:
      return EOWNERDEAD;
    default:
      return EINVAL;
  }
}

}  // namespace
}  // namespace rdmalloc

using rdmalloc::fail;
using rdmalloc::Pool;
using rdmalloc::pool_of;

extern "C" {

int rdm_pool_create(rdm_domain* domain, const rdm_pool_options* given, rdm_pool** out) {
  rdm_pool_options options;
  if (given == nullptr || !rdmalloc::read_options(given, &options)) {
    return fail(RDM_INVALID, "the options are null, or lack their size: sizeof(rdm_pool_options)");
  }
  rdmalloc::Message why;
  int status = RDM_INVALID;
  if (out == nullptr) {
    why.add("there is no place for the pool");
  } else {
    status = rdmalloc::create(domain, options, out, &why);
  }
  if (status == RDM_OK) return status;
  why.copy_to(rdmalloc::new_last_error(), rdmalloc::kLongestError);
  if (options.error != nullptr) why.copy_to(options.error, options.error_size);
  return status;
}

[[gnu::aligned(64)]] int rdm_pool_get(rdm_pool* pool, rdm_buffer* out) {
  return Pool::get(pool_of(pool), out);
}

void* rdm_pool_get_address(rdm_pool* pool) {
  rdm_buffer buffer;
  const int status = Pool::get(pool_of(pool), &buffer);
  if (status == RDM_OK) return buffer.address;
  errno = rdmalloc::errno_of(status);
  return nullptr;
}

[[gnu::aligned(64)]] int rdm_pool_put(rdm_pool* pool, void* address) {
  return Pool::put(pool_of(pool), address);
}

int rdm_pool_key(rdm_pool* pool, const void* address, rdm_mr* out) {
  return Pool::key(pool_of(pool), address, out);
}

int rdm_pool_stats(rdm_pool* pool, rdm_pool_counts* out, size_t sizeof_out) {
  if (out == nullptr || sizeof_out == 0) {
    return fail(RDM_INVALID, "there is no place for the counts");
  }
  Pool* const known = rdmalloc::pools.list().find(pool);
  if (known == nullptr) return fail(RDM_INVALID, "this is no open pool");
  rdm_pool_counts counts{};
  const int status = known->counts(&counts);
  if (status != RDM_OK) return status;
  const size_t filled = sizeof_out < sizeof counts ? sizeof_out : sizeof counts;
  memcpy(out, &counts, filled);
  memset(reinterpret_cast<char*>(out) + filled, 0, sizeof_out - filled);
  return RDM_OK;
}

int rdm_pool_close(rdm_pool* pool) {
  Pool* const known = rdmalloc::pools.list().find(pool);
  return known == nullptr ? fail(RDM_INVALID, "this is no open pool") : known->close();
}

}  // extern "C"
