// The one interface through which the rest of the world hears of regions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/region.h"

namespace rdmalloc {

// What an observer that registers regions has done, for the statistics; added up over observers.
struct RegistrationCounters {
  uint64_t domains = 0;
  uint64_t registrations = 0;
  uint64_t registered_bytes = 0;
  uint64_t registered_pinned_bytes = 0;
  uint64_t registration_ns = 0;
  uint64_t lookups = 0;
  uint64_t lookup_misses = 0;
  uint64_t foreign_hits = 0;
  uint64_t foreign_misses = 0;
  uint64_t foreign_evictions = 0;
  uint64_t foreign_invalidations = 0;
  uint64_t foreign_regions = 0;
  uint64_t foreign_bytes = 0;
};

class RegionObserver {
 public:
  // A region was acquired; it stays for the life of the process. Called inside malloc, under the
  // growth lock and perhaps under locks of jemalloc: must not allocate and must not call a driver.
  virtual void on_acquire(const Region& region) noexcept = 0;

  // Pages of a region that is not pinned are about to be dropped. Called inside malloc, under no
  // lock of the heap, by any thread.
  virtual void on_discard(const void* address, size_t size) noexcept {
    (void)address;
    (void)size;
  }

  // This process is a child of fork: no region is locked or registered any more. Called in the
  // child before fork returns there, under the growth lock.
  virtual void on_fork_child() noexcept = 0;

  virtual void add_to(RegistrationCounters* sum) const noexcept { (void)sum; }

 protected:
  ~RegionObserver() = default;
};

}  // namespace rdmalloc
