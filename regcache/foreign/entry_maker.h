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

class EntryMaker {
 public:
  EntryMaker(const CacheWords& words, CacheNews& news, EntryEnder& ender,
             CacheOperations& operations)
      : words_(words), news_(news), ender_(ender), operations_(operations) {}
  EntryMaker(const EntryMaker&) = delete;
  EntryMaker& operator=(const EntryMaker&) = delete;

  // `wait_ms`: milliseconds to wait when all is in use.
  void open(uint32_t wait_ms) REQUIRES(cache_lock) { wait_ms_ = wait_ms; }

  int make(CacheAttempt* attempt, CacheEntry* entry) REQUIRES(cache_lock);
  // True: something changed, look again. For `entry`, which is being built, if any.
  bool make_room(CacheAttempt* attempt, const CacheEntry* entry = nullptr) REQUIRES(cache_lock);

 private:
  bool has_room_made(int status, CacheAttempt* attempt, const CacheEntry& entry)
      REQUIRES(cache_lock);
  bool may_reclaim(const CacheEntry& entry) REQUIRES(cache_lock);
  bool reclaim(const CacheEntry& entry) REQUIRES(cache_lock);
  bool wait_for_others(CacheAttempt* attempt) REQUIRES(cache_lock);
  bool has_ended_since(uint32_t ended, CacheAttempt* attempt) const REQUIRES(cache_lock);

  const CacheWords& words_;
  CacheNews& news_;
  EntryEnder& ender_;
  CacheOperations& operations_;
  uint32_t wait_ms_ GUARDED_BY(cache_lock) = 0;
};

}  // namespace rdmalloc
