// UCX's registration cache, configured as UCX's own transports do: thread-safe, all memory events,
// no limits unless requested. Present if the build found libucx-dev.
#pragma once

#if BENCH_HAS_UCX

#include <cstddef>
#include <cstdint>

// The header does not declare its own language linkage.
extern "C" {
#include <ucs/memory/rcache.h>
}

namespace rdmalloc::bench {

// Registers on behalf of the cache. Called by get(), and by whatever unmaps memory.
class Registrar {
 public:
  virtual ~Registrar() = default;
  // False: registration failed.
  virtual bool add(void* base, size_t length, uint32_t* key) = 0;
  virtual void remove(uint32_t key) = 0;
};

class UcxCache {
 public:
  // The cache's record of each registration.
  struct Region {
    ucs_rcache_region_t super;
    uint32_t key;
  };

  // The registrar must outlive the cache, which keeps at most `most_regions` registrations. If UCX
  // refuses, prints why and exits.
  explicit UcxCache(Registrar& registrar, unsigned long most_regions = ~0UL);
  ~UcxCache() { ucs_rcache_destroy(cache_); }
  UcxCache(const UcxCache&) = delete;
  UcxCache& operator=(const UcxCache&) = delete;

  // Finds or registers; null if neither is possible. Each region returned must be put().
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
