// What the entries of a cache take of its limits. Written under the cache's lock; read without it
// for statistics.
#pragma once

#include <atomic>
#include <cstdint>

#include "regcache/foreign/cache_entries.h"

namespace rdmalloc {

// Adds to a count that is written under a lock, and read without it.
template <typename Count>
void add_locked(std::atomic<Count>& count, typename std::atomic<Count>::value_type more) {
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

struct CacheLimits {
  uint64_t bytes = UINT64_MAX;
  uint32_t count = 0;  // 1 to CacheEntries::kCapacity
  bool leave_pinned = true;
};

class CacheAccount {
 public:
  CacheAccount() = default;
  CacheAccount(const CacheAccount&) = delete;
  CacheAccount& operator=(const CacheAccount&) = delete;

  void open(const CacheLimits& limits) REQUIRES(cache_lock) {
    limits_ = limits;
    if (limits_.count == 0 || limits_.count > CacheEntries::kCapacity) {
      limits_.count = CacheEntries::kCapacity;
    }
  }
  const CacheLimits& limits() const REQUIRES(cache_lock) { return limits_; }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint32_t count() const { return count_.load(std::memory_order_relaxed); }

  bool has_room(uint64_t more) const REQUIRES(cache_lock) {
    return count() < limits_.count && more <= limits_.bytes && bytes() <= limits_.bytes - more;
  }
  // Counts the bytes that are charged for the entry, and no longer.
  void add(CacheEntry& entry) REQUIRES(cache_lock) {
    add_locked(bytes_, entry.charged);
    add_locked(count_, 1);
    entry.is_counted = true;
  }
  void remove(CacheEntry& entry) REQUIRES(cache_lock) {
    add_locked(bytes_, -entry.charged);
    add_locked(count_, -1U);
    entry.is_counted = false;
  }
  void clear() REQUIRES(cache_lock) {
    bytes_ = 0;
    count_ = 0;
  }

 private:
  CacheLimits limits_ GUARDED_BY(cache_lock);
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint32_t> count_{0};
};

}  // namespace rdmalloc
