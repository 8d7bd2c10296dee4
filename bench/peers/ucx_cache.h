// UCX's registration cache as UCX's own transports set it up: thread-safe, all memory events, no
// limits unless asked for. Present when the build found libucx-dev.
#pragma once

#if BENCH_HAS_UCX

#include <cstddef>
#include <cstdint>

// The header has no language linkage of its own.
extern "C" {
#include <ucs/memory/rcache.h>
}

namespace rdmalloc::bench {

// Who registers for the cache. Called by get(), and by whatever unmaps memory.
class Registrar {
 public:
  virtual ~Registrar() = default;
  // False: it could not be registered.
  virtual bool add(void* base, size_t length, uint32_t* key) = 0;
  virtual void remove(uint32_t key) = 0;
};

class UcxCache {
 public:
  // What the cache keeps of each registration.
  struct Region {
    ucs_rcache_region_t super;
    uint32_t key;
  };

  // The registrar must outlive the cache, which keeps at most so many registrations. Prints why,
  // and exits, when UCX refuses.
  explicit UcxCache(Registrar& registrar, unsigned long most_regions = ~0UL);
  ~UcxCache() { ucs_rcache_destroy(cache_); }
  UcxCache(const UcxCache&) = delete;
  UcxCache& operator=(const UcxCache&) = delete;

  // Finds or registers; null: neither. put() what was got.
  const Region* get(const void* address, size_t length) const {
    ucs_rcache_region_t* region = nullptr;
    const ucs_status_t status = ucs_rcache_get(cache_, const_cast<void*>(address), length,
                                               PROT_READ | PROT_WRITE, nullptr, &region);
    return status == UCS_OK ? reinterpret_cast<Region*>(region) : nullptr;
  }
  void put(const Region* region) const {
    ucs_rcache_region_put(cache_, const_cast<ucs_rcache_region_t*>(&region->super));
  }

 private:
  ucs_rcache_t* cache_ = nullptr;
};

}  // namespace rdmalloc::bench

#endif
