// The one interface through which other parts learn of regions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/pages/region.h"

namespace rdmalloc {

// What an observer that registers regions has done, for the statistics of the same names.
#define RDMALLOC_REGISTRATION_COUNTERS(X) \
  X(domains)                              \
  X(registrations)                        \
  X(registered_bytes)                     \
  X(registered_pinned_bytes)              \
  X(registration_ns)                      \
  X(lookups)                              \
  X(lookup_misses)                        \
  X(foreign_hits)                         \
  X(foreign_misses)                       \
  X(foreign_evictions)                    \
  X(foreign_invalidations)                \
  X(foreign_regions)                      \
  X(foreign_bytes)

// Added up over observers.
struct RegistrationCounters {
#define RDMALLOC_COUNTER(name) uint64_t name = 0;
  RDMALLOC_REGISTRATION_COUNTERS(RDMALLOC_COUNTER)
#undef RDMALLOC_COUNTER
};

class RegionObserver {
 public:
  // A region was acquired, and nobody uses any of it yet. Called inside malloc, perhaps under
  // jemalloc's locks: some steps in memory, no more.
  virtual void on_acquire(const Region& region) noexcept REQUIRES(growth_lock) = 0;

  // The region is published, and may be registered now. Called inside malloc, perhaps under
  // jemalloc's locks: must not allocate and must not call a driver.
  virtual void on_ready(const Region& region) noexcept EXCLUDES(growth_lock, depot_lock) {
    (void)region;
  }

  // True if somebody will populate all of the region's pages as soon as it is ready.
  virtual bool wants_pages(const Region& region) const noexcept {
    (void)region;
    return false;
  }

  // The program's own system calls destroyed some of the region's pages, or shut them: see
  // ProgramHoles. More may follow.
  virtual void on_hole(const Region& region) noexcept REQUIRES(growth_lock) { (void)region; }

  // The region has lost all its pages, and none of its addresses is ever used again. Called inside
  // malloc. has_let_go() tells when the observer keeps nothing of it any more.
  virtual void on_retire(const Region& region) noexcept REQUIRES(growth_lock) { (void)region; }
  virtual bool has_let_go(const Region& region) const noexcept {
    (void)region;
    return true;
  }

  // Pages of a region that is not pinned are about to be dropped. Called inside malloc, by any
  // thread.
  virtual void on_discard(const void* address, size_t size) noexcept
      EXCLUDES(growth_lock, depot_lock) {
    (void)address;
    (void)size;
  }

  // This process is a child of fork: no region is locked or registered any more. Called in the
  // child before fork returns there.
  virtual void on_fork_child() noexcept REQUIRES(growth_lock) = 0;

  virtual void add_to(RegistrationCounters* sum) const noexcept { (void)sum; }

 protected:
  ~RegionObserver() = default;
};

}  // namespace rdmalloc
