// Who keeps foreign memory registered in a process: rdmalloc, UCX's cache, or nobody.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/workloads/ring.h"

namespace rdmalloc::bench {

class Cache {
 public:
  virtual ~Cache() = default;
  // Registers the buffer, unless it is already, and lets it go again. Exits when refused.
  virtual void get_and_put(void* buffer, size_t length) = 0;
};

// kind: rdmalloc; ucx; none, whose get_and_put() does nothing. On a device that costs nothing.
std::unique_ptr<Cache> cache_on_free_device(const char* kind);

// The same with an io_uring. kind: rdmalloc; pinning: rdmalloc with a ring that it makes itself;
// ucx.
std::unique_ptr<Cache> cache_on_io_uring(const char* kind);

// Prints which monitor rdmalloc has, if it is there.
void report_monitor();

}  // namespace rdmalloc::bench
