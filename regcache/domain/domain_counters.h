// What the domains of a registry count together: of heap regions alone, for a cache counts what is
// foreign. Any thread, also inside malloc.
#pragma once

#include <atomic>
#include <cstdint>

#include "allocator/last_error.h"
#include "regcache/thread_counter.h"

namespace rdmalloc {

struct DomainCounters {
  LookupCounter lookups;
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> registrations{0};
  std::atomic<uint64_t> registered_bytes{0};
  std::atomic<uint64_t> registration_ns{0};

  // Counts a lookup that finds nothing, and says why.
  int miss(int status, const char* why) {
    lookups.count();
    misses.fetch_add(1, std::memory_order_relaxed);
    return fail_often(status, why);
  }
};

}  // namespace rdmalloc
