// Live entries, least recently used first. Under the cache's lock; nothing here allocates or waits.
//
// "Recently" is what CachePolicy's clock says. Entries last used at the same time go in the order
// in which they were last examined.
#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_entry.h"

namespace rdmalloc {

using EntriesInTurn = boost::intrusive::list<
    CacheEntry, boost::intrusive::member_hook<CacheEntry, CacheEntry::Link, &CacheEntry::in_turn>>;

class UseOrder {
 public:
  UseOrder() = default;
  UseOrder(const UseOrder&) = delete;
  UseOrder& operator=(const UseOrder&) = delete;

  size_t size() const REQUIRES(cache_lock) { return in_turn_.size() + by_use_.size(); }
  // There is one.
  CacheEntry& oldest() REQUIRES(cache_lock);

  void add(CacheEntry& entry) REQUIRES(cache_lock);
  void remove(CacheEntry& entry) REQUIRES(cache_lock);
  // The entry was last used then.
  void move(CacheEntry& entry, uint64_t use) REQUIRES(cache_lock);
  void clear() REQUIRES(cache_lock);

 private:
  struct ByUse {
    // Called only where the lock is held.
    bool operator()(const CacheEntry& a, const CacheEntry& b) const NO_THREAD_SAFETY_ANALYSIS {
      return a.listed_use != b.listed_use ? a.listed_use < b.listed_use
                                          : a.listed_turn < b.listed_turn;
    }
  };
  using EntriesByUse = boost::intrusive::set<
      CacheEntry, boost::intrusive::compare<ByUse>,
      boost::intrusive::member_hook<CacheEntry, CacheEntry::Hook, &CacheEntry::by_use>>;

  void add_anew(CacheEntry& entry, uint64_t use) REQUIRES(cache_lock);

  uint64_t turn_ GUARDED_BY(cache_lock) = 0;
  // Two lists of that order. Most entries come in order and go before they are used again: those
  // never need the tree.
  EntriesInTurn in_turn_ GUARDED_BY(cache_lock);
  EntriesByUse by_use_ GUARDED_BY(cache_lock);
};

inline CacheEntry& UseOrder::oldest() {
  if (by_use_.empty()) return in_turn_.front();
  const bool is_first = !in_turn_.empty() && ByUse()(in_turn_.front(), *by_use_.begin());
  return is_first ? in_turn_.front() : *by_use_.begin();
}

inline void UseOrder::add(CacheEntry& entry) {
  const uint64_t use = entry.last_use.load(std::memory_order_relaxed);
  if (!in_turn_.empty() && in_turn_.back().listed_use > use) return add_anew(entry, use);
  entry.listed_use = use;
  entry.listed_turn = ++turn_;
  entry.is_listed_anew = false;
  in_turn_.push_back(entry);
}

inline void UseOrder::add_anew(CacheEntry& entry, uint64_t use) {
  entry.listed_use = use;
  entry.listed_turn = ++turn_;
  entry.is_listed_anew = true;
  by_use_.insert(by_use_.end(), entry);
}

inline void UseOrder::remove(CacheEntry& entry) {
  if (entry.is_listed_anew) {
    by_use_.erase(by_use_.iterator_to(entry));
  } else {
    in_turn_.erase(in_turn_.iterator_to(entry));
  }
}

inline void UseOrder::move(CacheEntry& entry, uint64_t use) {
  remove(entry);
  add_anew(entry, use);
}

inline void UseOrder::clear() {
  in_turn_.clear();
  by_use_.clear();
}

}  // namespace rdmalloc
