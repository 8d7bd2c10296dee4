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
// misses count as used at the same time, and go in the order in which they were last examined.
//
// reference(), release() and touch() are lock-free. Nothing here allocates or waits.
#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_entry.h"
#include "regcache/foreign/references.h"

namespace rdmalloc {

// Adds to a count that is written under a lock, and read without it.
template <typename Count>
void add_locked(std::atomic<Count>& count, typename std::atomic<Count>::value_type more) {
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

using EntriesInTurn = boost::intrusive::list<
    CacheEntry, boost::intrusive::member_hook<CacheEntry, CacheEntry::Link, &CacheEntry::in_turn>>;

struct CacheLimits {
  uint64_t bytes = UINT64_MAX;
  uint32_t count = 0;  // 1 to CachePolicy::kCapacity
  bool leave_pinned = true;
};

class CachePolicy {
 public:
  static constexpr uint32_t kCapacity = 65535;

  CachePolicy() = default;
  CachePolicy(const CachePolicy&) = delete;
  CachePolicy& operator=(const CachePolicy&) = delete;

  // Takes memory at the first call, and keeps it. False: there is none. All entries are free.
  bool open(const CacheLimits& limits) REQUIRES(cache_lock);
  bool is_open() const { return entries_ != nullptr; }
  const CacheLimits& limits() const REQUIRES(cache_lock) { return limits_; }

  CacheEntry& entry(uint32_t index) { return entries_[index]; }
  uint32_t index_of(const CacheEntry& entry) const {
    return static_cast<uint32_t>(&entry - entries_);
  }

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

  // After release() returned false. True: the entry ends now, is kRemoving and belongs to the
  // caller.
  bool claim(CacheEntry& entry) REQUIRES(cache_lock);

  // The same in the place of a victim, which is counted no more, and must be ended before the entry
  // is built. Null also if the entry is shorter: others would use the rest of its room at once.
  CacheEntry* admit_instead_of(CacheEntry* victim, uint64_t bytes) REQUIRES(cache_lock);
  // The victim could not be ended.
  void recount(CacheEntry& victim) REQUIRES(cache_lock);

  // Ended, or never built: its place is free, and no longer counted.
  void remove(CacheEntry& entry) REQUIRES(cache_lock);

  // How many users the entry has.
  int32_t users(const CacheEntry& entry) const { return references_.out(index_of(entry)); }
  // Takes a reference where no other thread can end the entry meanwhile.
  void reference_locked(CacheEntry& entry) REQUIRES(cache_lock) {
    references_.take(index_of(entry));
    touch(entry);
  }

  // The place in which the thread counts references here from now on; after open().
  uint32_t enter() { return references_.enter(); }
  bool has_entered(uint32_t place) const { return references_.has_entered(place); }

  // Takes a reference; true while it is live, and then what the entry holds does not change before
  // it is released. False: it must be released all the same.
  bool reference(uint32_t place, const CacheEntry& entry, uint32_t index) {
    references_.take(place, index);
    return entry.state.load(std::memory_order_seq_cst) == EntryState::kLive;
  }

  // False: perhaps that was its last user, or it was released more often than referenced. Then call
  // restore(), and then claim().
  bool release(uint32_t place, const CacheEntry& entry, uint32_t index) {
    const bool taken_here = references_.give(place, index);
    return entry.state.load(std::memory_order_seq_cst) == EntryState::kLive && taken_here;
  }
  bool release(uint32_t place, uint32_t index) { return release(place, entries_[index], index); }
  // After release() returned false: the reference came from another thread, and others may still
  // find the entry, so there is nothing more to do.
  bool is_settled(const CacheEntry& entry) const {
    return users(entry) >= 0 && entry.state.load(std::memory_order_seq_cst) == EntryState::kLive;
  }
  // True: the entry was released more often than referenced; the excess release is undone.
  bool restore(CacheEntry& entry) REQUIRES(cache_lock) {
    if (users(entry) >= 0) return false;
    references_.take(index_of(entry));
    return true;
  }

  void touch(CacheEntry& entry) {
    const uint64_t now = clock_.load(std::memory_order_relaxed);
    if (entry.last_use.load(std::memory_order_relaxed) != now) {
      entry.last_use.store(now, std::memory_order_relaxed);
    }
  }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint32_t count() const { return count_.load(std::memory_order_relaxed); }

  // In the child of a fork: everything is free.
  void clear() REQUIRES(cache_lock);

  // Counts and lists against each other; for tests.
  bool validate() const REQUIRES(cache_lock);

 private:
  struct ByUse {
    // Called only where the lock is held.
    bool operator()(const CacheEntry& a, const CacheEntry& b) const NO_THREAD_SAFETY_ANALYSIS {
      return a.listed_use != b.listed_use ? a.listed_use < b.listed_use
                                          : a.listed_turn < b.listed_turn;
    }
  };
  using UseOrder = boost::intrusive::set<
      CacheEntry, boost::intrusive::compare<ByUse>,
      boost::intrusive::member_hook<CacheEntry, CacheEntry::Hook, &CacheEntry::by_use>>;

  size_t listed() const REQUIRES(cache_lock) { return in_turn_.size() + by_use_.size(); }
  CacheEntry& oldest() REQUIRES(cache_lock);
  void list(CacheEntry& entry) REQUIRES(cache_lock);
  void list_anew(CacheEntry& entry, uint64_t use) REQUIRES(cache_lock);
  void unlist(CacheEntry& entry) REQUIRES(cache_lock);
  CacheEntry* take_free() REQUIRES(cache_lock);
  void uncount(CacheEntry& entry) REQUIRES(cache_lock);

  CacheEntry* entries_ = nullptr;
  References references_;

  CacheLimits limits_ GUARDED_BY(cache_lock);
  // Written under the lock; read without it by hits, and for statistics.
  std::atomic<uint64_t> clock_{1};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint32_t> count_{0};
  uint32_t used_ GUARDED_BY(cache_lock) = 0;           // entries that were ever in use are below
  CacheEntry* free_ GUARDED_BY(cache_lock) = nullptr;  // of these
  uint64_t turn_ GUARDED_BY(cache_lock) = 0;
  // Live entries in two lists of that order. Most come in order and go before they are used again:
  // those never need the tree.
  EntriesInTurn in_turn_ GUARDED_BY(cache_lock);
  UseOrder by_use_ GUARDED_BY(cache_lock);
};

}  // namespace rdmalloc
