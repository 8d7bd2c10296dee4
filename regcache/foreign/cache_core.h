// What the caches have in common, around the policy: how an entry is built and how it ends. A cache
// defines what an entry stands for and how it is found.
//
// A get that finds nothing inserts an entry under the lock, builds it outside the lock, and
// publishes it under the lock again; others that want the same wait for that. Entries are also
// ended outside the lock: they are removed from the index under it, so that nobody finds them, and
// freed under it afterwards.
//
// A function marked "unlocks" releases the lock meanwhile, so its caller must look again.
#pragma once

#include <atomic>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "allocator/last_error.h"
#include "allocator/mutex.h"
#include "allocator/os/clock.h"
#include "regcache/foreign/policy.h"

namespace rdmalloc {

// The sentences of a cache.
struct CacheWords {
  const char* closed;
  const char* no_room;
  const char* overlaps;  // ... what is in use
  const char* not_out;
  const char* put_too_often;
};

class CacheCore {
 public:
  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;

  uint32_t count() const { return policy_.count(); }
  uint64_t bytes() const { return policy_.bytes(); }
  // Ever.
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }
  uint64_t evictions() const { return evictions_.load(std::memory_order_relaxed); }

 protected:
  explicit CacheCore(const CacheWords& words) : words_(&words) {}
  ~CacheCore() = default;

  struct ByBase {
    bool operator()(const CacheEntry& a, const CacheEntry& b) const {
      return a.begin() < b.begin();
    }
    bool operator()(uintptr_t a, const CacheEntry& b) const { return a < b.begin(); }
    bool operator()(const CacheEntry& a, uintptr_t b) const { return a.begin() < b; }
  };
  using EntriesByBase = boost::intrusive::multiset<
      CacheEntry, boost::intrusive::compare<ByBase>,
      boost::intrusive::member_hook<CacheEntry, CacheEntry::Hook, &CacheEntry::in_index>>;

  // A get, from its first look to its last.
  struct Attempt {
    Attempt() { why[0] = '\0'; }
    // Since this was first asked.
    uint64_t waited_ns();

    // The get can be served in another way: only what is in the way is evicted, and nothing is
    // waited for.
    bool is_optional = false;
    char why[kLongestError];

   private:
    uint64_t waits_since_ = 0;
  };

  // What a cache does with an entry. Several threads at a time may call make() and end() for
  // different entries; make() sets what a get returns of the entry. Both return statuses of
  // rdmalloc.h and backend.h; RDM_NOT_REGISTERED: there may be no more entries. `may_wait`: not
  // inside malloc.
  virtual int make(CacheEntry& entry, Attempt* attempt) EXCLUDES(cache_lock) = 0;
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
  // The entry is no longer in index_.
  virtual void note_unindexed(CacheEntry& entry) REQUIRES(cache_lock) = 0;
  // Unlocks: ends what is idle and in the way of an entry being built. True: there was some.
  virtual bool evict_overlapping(const CacheEntry& entry) REQUIRES(cache_lock) = 0;
  // Whether what is in use is in its way.
  virtual bool overlaps_what_is_used(const CacheEntry& entry) REQUIRES(cache_lock) = 0;

  void open_core(uint32_t wait_ms) REQUIRES(cache_lock);
  void unindex(CacheEntry* entry) REQUIRES(cache_lock);
  void doom(CacheEntry* entry) REQUIRES(cache_lock);  // of index_
  bool doom_if_idle(CacheEntry* entry) REQUIRES(cache_lock);
  void tell_waiters() REQUIRES(cache_lock);
  bool has_idle() const REQUIRES(cache_lock) { return idle_ != nullptr; }

  // Finds an entry in use. Doomed entries come first, because nobody can find those otherwise.
  template <class IsIt>
  CacheEntry* find_in_use(uintptr_t base, IsIt is_it) REQUIRES(cache_lock) {
    for (EntriesByBase* const entries : {&doomed_, &index_}) {
      for (auto [at, end] = entries->equal_range(base, ByBase()); at != end; ++at) {
        if (is_it(*at) && policy_.users(*at) > 0) return &*at;
      }
    }
    return nullptr;
  }

  // What can be given up, counted until either bound is reached.
  struct Idle {
    uint64_t bytes = 0;
    size_t count = 0;
  };
  Idle count_idle(uint64_t enough_bytes, size_t enough_count) const REQUIRES(cache_lock);

  CacheEntry* take_victim() REQUIRES(cache_lock);  // the caller ends it; null: there is none
  // What end() has returned for an entry; false: it is left idle for another thread to end.
  bool note_ended(CacheEntry* entry, int status) REQUIRES(cache_lock);
  bool has_ended_since(uint32_t ended, Attempt* attempt) const REQUIRES(cache_lock);

  // These unlock.
  int make_unlocked(Attempt* attempt, CacheEntry* entry) REQUIRES(cache_lock);
  bool end_unlocked(CacheEntry* entry, bool may_wait) REQUIRES(cache_lock);
  bool end_all_idle(bool may_wait) REQUIRES(cache_lock);  // true: some
  bool evict_one() REQUIRES(cache_lock);
  // True: something changed, look again. For `entry`, which is being built, if any.
  bool make_room(Attempt* attempt, const CacheEntry* entry = nullptr) REQUIRES(cache_lock);
  bool has_room_made(int status, Attempt* attempt, const CacheEntry& entry) REQUIRES(cache_lock);
  bool may_reclaim_unlocked(const CacheEntry& entry) REQUIRES(cache_lock);
  bool reclaim_unlocked(const CacheEntry& entry) REQUIRES(cache_lock);
  bool wait_for_others(Attempt* attempt) REQUIRES(cache_lock);
  void wait_for_builder() REQUIRES(cache_lock);
  int put_in_use(CacheEntry* entry) REQUIRES(cache_lock);  // null: RDM_INVALID
  int settle_locked(CacheEntry* entry) REQUIRES(cache_lock);
  int close_core(uint32_t* users) REQUIRES(cache_lock);

  // After a release that was perhaps the entry's last, or one too many.
  int settle(CacheEntry* entry) EXCLUDES(cache_lock);

  // In the child of a fork: threads that held the lock, built or ended are gone, and it has no
  // other. So the lock is made anew, and not taken.
  void forget_all() NO_THREAD_SAFETY_ANALYSIS;

  bool validate_core() const REQUIRES(cache_lock);

  Mutex& mutex() RETURN_CAPABILITY(cache_lock) { return mutex_; }

  CachePolicy policy_;  // what a hit reads
  Mutex mutex_{Rank::kForeign};
  bool open_ GUARDED_BY(cache_lock) = false;
  EntriesByBase index_ GUARDED_BY(cache_lock);     // kLive, kTransient
  uint64_t reindexed_ GUARDED_BY(cache_lock) = 1;  // how often index_ was changed
  EntriesInTurn building_ GUARDED_BY(cache_lock);  // kBuilding
  EntriesByBase doomed_ GUARDED_BY(cache_lock);    // in use, and not to be used again
  // Written under the lock; read without it for statistics.
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> evictions_{0};

 private:
  void add_idle(CacheEntry* entry) REQUIRES(cache_lock);
  void wait_for_news(uint64_t ns) REQUIRES(cache_lock);

  const CacheWords* const words_;
  std::atomic<uint32_t> news_{0};  // something was built or ended: who waits looks again

  CacheEntry* idle_ GUARDED_BY(cache_lock) = nullptr;  // kRemoving, to be ended
  uint32_t ended_ GUARDED_BY(cache_lock) = 0;          // entries, ever (wraps around)
  uint32_t ending_ GUARDED_BY(cache_lock) = 0;         // kRemoving, by threads without the lock
  CacheEntry* lost_ GUARDED_BY(cache_lock) = nullptr;  // not ended: counted until closed
  uint32_t waiting_ GUARDED_BY(cache_lock) = 0;        // threads that wait for news_
  uint32_t wait_ms_ GUARDED_BY(cache_lock) = 0;        // milliseconds to wait when all is in use
};

}  // namespace rdmalloc
