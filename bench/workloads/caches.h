// What keeps foreign memory registered in a process: rdmalloc, UCX's cache, or nothing.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/workloads/ring.h"

namespace rdmalloc::bench {

class Cache {
 public:
  virtual ~Cache() = default;
  // Registers the buffer, unless it is registered already, and lets it go again. Exits if refused.
  virtual void get_and_put(void* buffer, size_t length) = 0;
};

// Caches on a device that costs nothing. kind: rdmalloc, ucx, or none, whose get_and_put() does
// nothing.
std::unique_ptr<Cache> cache_on_free_device(const char* kind);

// The same on an io_uring. kind: rdmalloc; pinning, which is rdmalloc with a ring that it creates
// itself; or ucx.
std::unique_ptr<Cache> cache_on_io_uring(const char* kind);

// Prints which monitor rdmalloc uses, if rdmalloc is loaded.
void report_monitor();

}  // namespace rdmalloc::bench
