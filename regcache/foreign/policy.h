// What is kept, for how long, and what goes first: the policy that the caches of registrations and
// of opened handles share. It knows entries, their users and limits; the cache knows what an entry
// stands for and how it is found.
//
// Two switches make four policies. `leave_pinned`: an entry without users stays for the next one,
// or ends with its last user. Limits: when one is reached, the least recently used entry without
// users makes room; if there is none, there is no room.
//
// "Recently" is measured by a clock that advances whenever something is admitted, so that hits
// between two misses write nothing that other threads read. Entries last used between the same two
// misses count as used at the same time (use_order.h).
//
// touch() and what CacheEntries says are lock-free; the rest runs under the cache's lock. Nothing
// here allocates after open(), or waits.
#pragma once

#include <atomic>
#include <cstdint>

#include "regcache/foreign/cache_account.h"
#include "regcache/foreign/cache_entries.h"
#include "regcache/foreign/use_order.h"

namespace rdmalloc {

class CachePolicy {
 public:
  CachePolicy() = default;
  CachePolicy(const CachePolicy&) = delete;
  CachePolicy& operator=(const CachePolicy&) = delete;

  // As CacheEntries::open().
  bool open(const CacheLimits& limits) REQUIRES(cache_lock);

  CacheEntries& entries() { return entries_; }
  const CacheEntries& entries() const { return entries_; }
  const CacheAccount& account() const { return account_; }

  // Returns a free entry, now kBuilding and counted with that many bytes; null if the limits leave
  // no room.
  CacheEntry* admit(uint64_t bytes) REQUIRES(cache_lock);

  // Returns the least recently used live entry without users, or null. The entry is now kRemoving;
  // the caller takes it out of its index, ends it and calls remove().
  CacheEntry* choose_victim() REQUIRES(cache_lock);

  // The entry is built: it may be used, and has one user, who asked for it. `state`: kLive,
  // kTransient or kDoomed.
  void publish(CacheEntry& entry, EntryState state) REQUIRES(cache_lock);

  // The entry is not to be used again. True: it has no user, is kRemoving and belongs to the
  // caller. False: it is kDoomed and belongs to its last user.
  bool doom(CacheEntry& entry) REQUIRES(cache_lock);

  // The same, but an entry in use stays as it is: false.
  bool doom_if_idle(CacheEntry& entry) REQUIRES(cache_lock);

  // After CacheEntries::release() returned false. True: the entry ends now, is kRemoving and
  // belongs to the caller.
  bool claim(CacheEntry& entry) REQUIRES(cache_lock);

  // The same in the place of a victim, which is counted no more, and must be ended before the entry
  // is built. Null also if the entry is shorter: others would use the rest of its room at once.
  CacheEntry* admit_instead_of(CacheEntry* victim, uint64_t bytes) REQUIRES(cache_lock);
  // The victim could not be ended.
  void recount(CacheEntry& victim) REQUIRES(cache_lock) { account_.add(victim); }

  // Ended, or never built: its place is free, and no longer counted.
  void remove(CacheEntry& entry) REQUIRES(cache_lock);

  // Takes a reference where no other thread can end the entry meanwhile.
  void reference_locked(CacheEntry& entry) REQUIRES(cache_lock) {
    entries_.reference(entry);
    touch(entry);
  }
  void touch(CacheEntry& entry) {
    const uint64_t now = clock_.load(std::memory_order_relaxed);
    if (entry.last_use.load(std::memory_order_relaxed) != now) {
      entry.last_use.store(now, std::memory_order_relaxed);
    }
  }

  // In the child of a fork: everything is free.
  void clear() REQUIRES(cache_lock);

  // Counts and lists against each other; for tests.
  bool validate() const REQUIRES(cache_lock);

 private:
  // What a hit reads comes first.
  std::atomic<uint64_t> clock_{1};  // written under the lock
  CacheEntries entries_;
  CacheAccount account_;
  UseOrder order_ GUARDED_BY(cache_lock);  // of live entries
};

}  // namespace rdmalloc
