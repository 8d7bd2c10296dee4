// How the entries of a cache end: removed from the index under the cache's lock, so that nobody
// finds them, then ended outside it, and freed under it afterwards.
//
// doom() and end_all_idle(false) may run inside malloc; nothing else may. A function marked
// "unlocks" releases the lock meanwhile, so its caller must look again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_news.h"
#include "regcache/foreign/cache_operations.h"
#include "regcache/foreign/cache_table.h"

namespace rdmalloc {

// Linked by CacheEntry::next. Under the cache's lock.
struct EntryChain {
  CacheEntry* first = nullptr;

  bool is_empty() const { return first == nullptr; }
  void push(CacheEntry* entry) REQUIRES(cache_lock) {
    entry->next = first;
    first = entry;
  }
  // There is one.
  CacheEntry* pop() REQUIRES(cache_lock) {
    CacheEntry* const entry = first;
    first = entry->next;
    return entry;
  }
  size_t count() const REQUIRES(cache_lock) {
    size_t count = 0;
    for (const CacheEntry* entry = first; entry != nullptr; entry = entry->next) ++count;
    return count;
  }
};

class EntryEnder {
 public:
  EntryEnder(CacheTable& table, CacheNews& news, CacheOperations& operations)
      : table_(table), news_(news), operations_(operations) {}
  EntryEnder(const EntryEnder&) = delete;
  EntryEnder& operator=(const EntryEnder&) = delete;

  // kRemoving, to be ended.
  const EntryChain& idle() const REQUIRES(cache_lock) { return idle_; }

  // The entry leaves the index, and is idle now or once its last user has released it.
  void doom(CacheEntry* entry) REQUIRES(cache_lock);
  bool doom_if_idle(CacheEntry* entry) REQUIRES(cache_lock);
  // The caller ends it; null: there is none.
  CacheEntry* take_victim() REQUIRES(cache_lock);
  // What end() has returned for an entry; false: it is left idle for another thread to end.
  bool note_ended(CacheEntry* entry, int status) REQUIRES(cache_lock);

  // Entries, ever (wraps around).
  uint32_t ended() const REQUIRES(cache_lock) { return ended_; }
  // When the last one did; 0: none has.
  uint64_t ended_at_ns() const REQUIRES(cache_lock) { return ended_at_ns_; }
  // By threads without the lock.
  bool is_ending() const REQUIRES(cache_lock) { return ending_ != 0; }

  // These unlock. The entry is kRemoving and owned by this thread. False: it is left idle for
  // another thread to end.
  bool end(CacheEntry* entry, bool may_wait) REQUIRES(cache_lock);
  bool end_one_idle() REQUIRES(cache_lock);
  bool end_all_idle(bool may_wait) REQUIRES(cache_lock);  // true: some
  bool evict_one() REQUIRES(cache_lock);
  // The entry's last user has released it; nothing happens if it has users or may be found.
  void end_unused(CacheEntry* entry) REQUIRES(cache_lock);
  // Nothing is in use. Waits for other threads; false: some could not be ended, and are lost.
  bool end_everything() REQUIRES(cache_lock);

  size_t count() const REQUIRES(cache_lock);
  // In the child of a fork: threads that ended entries are gone.
  void clear() REQUIRES(cache_lock);

 private:
  void unindex(CacheEntry* entry) REQUIRES(cache_lock);

  CacheTable& table_;
  CacheNews& news_;
  CacheOperations& operations_;
  EntryChain idle_ GUARDED_BY(cache_lock);
  EntryChain lost_ GUARDED_BY(cache_lock);  // not ended: counted until closed
  uint32_t ended_ GUARDED_BY(cache_lock) = 0;
  uint64_t ended_at_ns_ GUARDED_BY(cache_lock) = 0;
  uint32_t ending_ GUARDED_BY(cache_lock) = 0;
};

}  // namespace rdmalloc
