// What the caches share, around the policy: how an entry comes into being and how it ends. A cache
// says what an entry stands for and how it is found.
//
// A get that finds nothing inserts what it is building under the lock, has it made outside of it,
// and publishes it under the lock again; others who want the same wait for that. Entries are ended
// outside the lock, too: taken out of the index under it, so that nobody finds them, and freed
// under it again.
//
// What is called "locked" below is called with the lock held and returns with it; such as is also
// called "unlocks" gives it back meanwhile, so that its caller has to look again.
#pragma once

#include <atomic>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/os/clock.h"
#include "regcache/cache/policy.h"
#include "regcache/last_error.h"

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
    uint64_t started = os::now_ns();
    // There is another way: room is made of what is in the way only, and nobody is waited for.
    bool is_optional = false;
    char why[kLongestError] = {};
  };

  // What a cache does with an entry. make() and end() without the lock, by several threads at a
  // time for different entries; make() sets what is given out of it. Statuses of rdmalloc.h and
  // backend.h; RDM_NOT_REGISTERED: there may be no more. `may_wait`: not inside malloc.
  virtual int make(CacheEntry& entry, char* why, size_t why_size) = 0;
  virtual int end(CacheEntry& entry, bool may_wait) = 0;
  // Without the lock: others gave up something of a budget that they share with this cache.
  virtual bool reclaim(const CacheEntry& entry) {
    (void)entry;
    return false;
  }
  // Locked: it is in index_ no more.
  virtual void note_unindexed(CacheEntry& entry) = 0;
  // Locked, unlocks: ends what is idle and in the way of an entry being built. True: there was
  // some.
  virtual bool evict_overlapping(const CacheEntry& entry) = 0;
  // Locked: whether what is in use is in its way.
  virtual bool overlaps_what_is_used(const CacheEntry& entry) = 0;

  // Locked.
  void open_core(uint32_t wait_ms, std::atomic<uint64_t>* evictions);
  void unindex(CacheEntry* entry);
  void doom(CacheEntry* entry);  // of index_
  bool doom_if_idle(CacheEntry* entry);
  void tell_waiters();
  bool has_idle() const { return idle_ != nullptr; }

  // Something that is out; doomed entries come first, because nobody can find those otherwise.
  template <class IsIt>
  CacheEntry* find_in_use(uintptr_t base, IsIt is_it) {
    for (EntriesByBase* const entries : {&doomed_, &index_}) {
      for (auto [at, end] = entries->equal_range(base, ByBase()); at != end; ++at) {
        if (is_it(*at) && policy_.users(*at) > 0) return &*at;
      }
    }
    return nullptr;
  }

  // Locked, unlock.
  int make_unlocked(Attempt* attempt, CacheEntry* entry);
  bool end_unlocked(CacheEntry* entry, bool may_wait);
  bool end_all_idle(bool may_wait);  // true: some
  bool evict_one();
  // True: something changed, look again. For `entry`, which is being built, if any.
  bool make_room(const Attempt& attempt, const CacheEntry* entry = nullptr);
  bool reclaim_unlocked(const Attempt& attempt, const CacheEntry& entry);
  bool wait_for_others(const Attempt& attempt);
  bool has_ended_since(uint32_t ended, const Attempt& attempt) const;
  void wait_for_builder();
  int put_in_use(CacheEntry* entry);  // null: RDM_INVALID
  int settle_locked(CacheEntry* entry);
  int close_core(uint32_t* users);

  // Takes the lock. After a release that was perhaps the entry's last, or one too many.
  int settle(CacheEntry* entry);

  // In the child of a fork: threads that held the lock, built or ended are gone.
  void forget_all();

  // Locked.
  bool validate_core() const;

  CachePolicy policy_;  // what a hit reads
  Mutex mutex_{Rank::kForeign};

  // Guarded by mutex_.
  bool open_ = false;
  EntriesByBase index_;     // kLive, kTransient
  EntriesByBase building_;  // kBuilding
  EntriesByBase doomed_;    // in use, and not to be used again

 private:
  void add_idle(CacheEntry* entry);
  void wait_for_news(uint64_t ns);

  const CacheWords* const words_;
  std::atomic<uint32_t> news_{0};  // something was built or ended: who waits looks again

  // Guarded by mutex_.
  CacheEntry* idle_ = nullptr;  // kRemoving, to be ended
  uint32_t ended_ = 0;          // entries, ever (wraps around)
  uint32_t ending_ = 0;         // kRemoving, by threads without the lock
  CacheEntry* lost_ = nullptr;  // could not be ended: counted until the cache is closed
  uint32_t waiting_ = 0;        // threads that wait for news_
  uint32_t wait_ms_ = 0;        // milliseconds to wait when all there may be is in use
  std::atomic<uint64_t>* evictions_ = nullptr;
};

}  // namespace rdmalloc
