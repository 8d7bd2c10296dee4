// What the caches have in common: how an entry is made, used and ended. A cache defines what an
// entry stands for (CacheOperations), and how it is found.
//
// A get that finds nothing inserts an entry under the lock, makes it outside the lock, and
// publishes it under the lock again; others that want the same wait for that. Entries are ended
// outside the lock, too (entry_ender.h). A function marked "unlocks" releases the lock meanwhile,
// so its caller must look again. None is called inside malloc; what is allowed there is said of the
// parts.
#pragma once

#include <cstdint>

#include "regcache/foreign/cache_news.h"
#include "regcache/foreign/cache_operations.h"
#include "regcache/foreign/cache_table.h"
#include "regcache/foreign/entry_ender.h"
#include "regcache/foreign/entry_maker.h"

namespace rdmalloc {

class CacheCore {
 public:
  CacheCore(const CacheWords& words, CacheOperations& operations)
      : ender_(table_, news_, operations),
        maker_(words, news_, ender_, operations),
        words_(words) {}
  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;

  Mutex& mutex() RETURN_CAPABILITY(cache_lock) { return news_.mutex(); }
  CacheTable& table() { return table_; }
  const CacheTable& table() const { return table_; }
  CacheNews& news() { return news_; }
  EntryEnder& ender() { return ender_; }
  EntryMaker& maker() { return maker_; }
  const CacheWords& words() const { return words_; }

  void open(const CacheWaits& waits) REQUIRES(cache_lock);
  bool is_open() const REQUIRES(cache_lock) { return open_; }
  // Unlocks. RDM_BUSY: idle entries have been ended, and the cache stays open.
  int close(uint32_t* users) REQUIRES(cache_lock);

  // Unlocks. Releases what find_in_use() has found; null: RDM_INVALID.
  int put(CacheEntry* entry) REQUIRES(cache_lock);
  // After a release that was perhaps the entry's last, or one too many.
  int end_release(CacheEntry* entry) EXCLUDES(cache_lock);

  // In the child of a fork: threads that held the lock, made or ended are gone.
  void forget_all() NO_THREAD_SAFETY_ANALYSIS;
  bool validate() const REQUIRES(cache_lock);

 private:
  int end_release_locked(CacheEntry* entry) REQUIRES(cache_lock);

  CacheTable table_;  // comes first, because a hit reads it
  CacheNews news_;
  EntryEnder ender_;
  EntryMaker maker_;
  const CacheWords& words_;
  bool open_ GUARDED_BY(cache_lock) = false;
};

}  // namespace rdmalloc
