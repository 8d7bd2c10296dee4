// What an entry stands for: how a cache makes and ends one. Each cache defines it.
#pragma once

#include <cstdint>

#include "allocator/last_error.h"
#include "regcache/foreign/cache_entry.h"

namespace rdmalloc {

// A get, from its first look to its last.
struct CacheAttempt {
  CacheAttempt() { why[0] = '\0'; }
  // Since this was first asked.
  uint64_t waited_ns();

  // The get can be served in another way: only what is in the way is evicted, and nothing is waited
  // for.
  bool is_optional = false;
  char why[kLongestError];

 private:
  uint64_t waits_since_ = 0;
};

class CacheOperations {
 public:
  // Several threads at a time may call make() and end() for different entries; make() sets what a
  // get returns of the entry. Both return statuses of rdmalloc.h and backend.h;
  // RDM_NOT_REGISTERED: there may be no more entries. `may_wait`: not inside malloc.
  virtual int make(CacheEntry& entry, CacheAttempt* attempt) EXCLUDES(cache_lock) = 0;
  virtual int end(CacheEntry& entry, bool may_wait) EXCLUDES(cache_lock) = 0;
  // Whether others gave up enough of a budget that they share with this cache.
  virtual bool reclaim(const CacheEntry& entry) EXCLUDES(cache_lock) {
    (void)entry;
    return false;
  }
  // Whether there would be room for the entry if everything idle were given up, here and by them.
  virtual bool may_reclaim(const CacheEntry& entry) EXCLUDES(cache_lock) {
    (void)entry;
    return true;
  }
  // The entry is no longer in the index.
  virtual void note_unindexed(CacheEntry& entry) REQUIRES(cache_lock) = 0;
  // Unlocks: ends what is idle and in the way of an entry being built. True: there was some.
  virtual bool evict_overlapping(const CacheEntry& entry) REQUIRES(cache_lock) = 0;
  // Whether what is in use is in its way.
  virtual bool overlaps_what_is_used(const CacheEntry& entry) REQUIRES(cache_lock) = 0;

 protected:
  ~CacheOperations() = default;
};

}  // namespace rdmalloc
