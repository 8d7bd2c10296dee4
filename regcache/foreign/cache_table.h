// The entries of a cache that are being built or used, and how they are found. All but the policy's
// lock-free part and the counters is under the cache's lock. Nothing here allocates, waits or
// unlocks.
#pragma once

#include <atomic>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "regcache/foreign/policy.h"

namespace rdmalloc {

struct ByBase {
  bool operator()(const CacheEntry& a, const CacheEntry& b) const { return a.begin() < b.begin(); }
  bool operator()(uintptr_t a, const CacheEntry& b) const { return a < b.begin(); }
  bool operator()(const CacheEntry& a, uintptr_t b) const { return a.begin() < b; }
};
using EntriesByBase = boost::intrusive::multiset<
    CacheEntry, boost::intrusive::compare<ByBase>,
    boost::intrusive::member_hook<CacheEntry, CacheEntry::Hook, &CacheEntry::in_index>>;

// Ever. Written under the lock; read without it for statistics.
struct CacheCounters {
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> registrations{0};  // that misses made
  std::atomic<uint64_t> evictions{0};
  std::atomic<uint64_t> invalidations{0};  // given up because the memory changed
};

class CacheTable {
 public:
  CacheTable() = default;
  CacheTable(const CacheTable&) = delete;
  CacheTable& operator=(const CacheTable&) = delete;

  CachePolicy& policy() { return policy_; }
  const CachePolicy& policy() const { return policy_; }
  CacheCounters& counters() { return counters_; }
  const CacheCounters& counters() const { return counters_; }

  // kLive, kTransient.
  EntriesByBase& index() REQUIRES(cache_lock) { return index_; }
  const EntriesByBase& index() const REQUIRES(cache_lock) { return index_; }
  // How often the index was changed.
  uint64_t reindexed() const REQUIRES(cache_lock) { return reindexed_; }
  void insert(CacheEntry& entry) REQUIRES(cache_lock);
  void insert_before(EntriesByBase::iterator after, CacheEntry& entry) REQUIRES(cache_lock);
  void erase(CacheEntry& entry) REQUIRES(cache_lock);

  // kBuilding.
  EntriesInTurn& building() REQUIRES(cache_lock) { return building_; }
  const EntriesInTurn& building() const REQUIRES(cache_lock) { return building_; }
  // In use, and not to be used again.
  EntriesByBase& doomed() REQUIRES(cache_lock) { return doomed_; }
  const EntriesByBase& doomed() const REQUIRES(cache_lock) { return doomed_; }

  // Finds an entry in use. Doomed entries come first, because nobody can find those otherwise.
  template <class IsIt>
  CacheEntry* find_in_use(uintptr_t base, IsIt is_it) REQUIRES(cache_lock) {
    for (EntriesByBase* const entries : {&doomed_, &index_}) {
      for (auto [at, end] = entries->equal_range(base, ByBase()); at != end; ++at) {
        if (is_it(*at) && policy_.entries().users(*at) > 0) return &*at;
      }
    }
    return nullptr;
  }

  // Of all these.
  size_t count() const REQUIRES(cache_lock) {
    return index_.size() + building_.size() + doomed_.size();
  }
  // In the child of a fork: everything is free.
  void clear() REQUIRES(cache_lock);

 private:
  CachePolicy policy_;  // comes first, because a hit reads it
  EntriesByBase index_ GUARDED_BY(cache_lock);
  uint64_t reindexed_ GUARDED_BY(cache_lock) = 1;
  EntriesInTurn building_ GUARDED_BY(cache_lock);
  EntriesByBase doomed_ GUARDED_BY(cache_lock);
  CacheCounters counters_;
};

inline void CacheTable::insert(CacheEntry& entry) {
  index_.insert(entry);
  ++reindexed_;
}

inline void CacheTable::insert_before(EntriesByBase::iterator after, CacheEntry& entry) {
  if (after == index_.end()) {
    index_.push_back(entry);  // unlike insert_before(), does not search for the last one
  } else {
    index_.insert_before(after, entry);
  }
  ++reindexed_;
}

inline void CacheTable::erase(CacheEntry& entry) {
  index_.erase(index_.iterator_to(entry));
  ++reindexed_;
}

inline void CacheTable::clear() {
  index_.clear();
  ++reindexed_;
  building_.clear();
  doomed_.clear();
  policy_.clear();
}

}  // namespace rdmalloc
