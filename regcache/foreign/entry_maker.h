// How an entry of a cache is made: outside the cache's lock, with room made for it and obstacles
// removed as often as the device asks for that. Called under the lock, never inside malloc. All
// public functions but open() unlock, so the caller must look again.
#pragma once

#include <cstdint>

#include "regcache/foreign/entry_ender.h"

namespace rdmalloc {

// The sentences of a cache.
struct CacheWords {
  const char* closed;
  const char* no_room;
  const char* overlaps;  // ... what is in use
  const char* not_out;
  const char* put_too_often;
};

// What a get waits for when there is no room.
struct CacheWaits {
  uint32_t for_puts_ms = 0;
  bool for_late_unpins = false;  // the device gives back late what it had pinned
};

class EntryMaker {
 public:
  EntryMaker(const CacheWords& words, CacheNews& news, EntryEnder& ender,
             CacheOperations& operations)
      : words_(words), news_(news), ender_(ender), operations_(operations) {}
  EntryMaker(const EntryMaker&) = delete;
  EntryMaker& operator=(const EntryMaker&) = delete;

  void open(const CacheWaits& waits) REQUIRES(cache_lock) { waits_ = waits; }

  int make(CacheAttempt* attempt, CacheEntry* entry) REQUIRES(cache_lock);
  // True: something changed, look again. For `entry`, which is being built, if any.
  bool make_room(CacheAttempt* attempt, const CacheEntry* entry = nullptr) REQUIRES(cache_lock);

 private:
  bool has_room_made(int status, CacheAttempt* attempt, const CacheEntry& entry)
      REQUIRES(cache_lock);
  bool may_reclaim(const CacheEntry& entry) REQUIRES(cache_lock);
  bool reclaim(const CacheEntry& entry) REQUIRES(cache_lock);
  bool wait_for_others(CacheAttempt* attempt) REQUIRES(cache_lock);
  bool is_unpinning(const CacheAttempt& attempt) const REQUIRES(cache_lock);
  bool has_ended_since(uint32_t ended, CacheAttempt* attempt) const REQUIRES(cache_lock);

  const CacheWords& words_;
  CacheNews& news_;
  EntryEnder& ender_;
  CacheOperations& operations_;
  CacheWaits waits_ GUARDED_BY(cache_lock);
};

}  // namespace rdmalloc
