// The one interface through which the rest of the world hears of regions.
#pragma once

#include "allocator/region.h"

namespace rdmalloc {

class RegionObserver {
 public:
  // A region was acquired; it stays for the life of the process. Called inside malloc, under the
  // growth lock and perhaps under locks of jemalloc: must not allocate and must not call a driver.
  virtual void on_acquire(const Region& region) noexcept = 0;

  // This process is a child of fork: no region is locked or registered any more. Called in the
  // child before fork returns there, under the growth lock.
  virtual void on_fork_child() noexcept = 0;

 protected:
  ~RegionObserver() = default;
};

}  // namespace rdmalloc
