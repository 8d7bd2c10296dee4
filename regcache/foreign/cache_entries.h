// The records of a cache's entries, by number, and who uses them. What is said to be lock-free may
// be called by any thread; the rest under the cache's lock. Nothing here allocates after open(), or
// waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_entry.h"
#include "regcache/foreign/references.h"

namespace rdmalloc {

class CacheEntries {
 public:
  static constexpr uint32_t kCapacity = 65535;

  CacheEntries() = default;
  CacheEntries(const CacheEntries&) = delete;
  CacheEntries& operator=(const CacheEntries&) = delete;

  // Takes memory at the first call, and keeps it. False: there is none. All entries are free.
  bool open() REQUIRES(cache_lock);
  bool is_open() const { return entries_ != nullptr; }

  // Lock-free.
  CacheEntry& at(uint32_t index) { return entries_[index]; }
  const CacheEntry& at(uint32_t index) const { return entries_[index]; }
  uint32_t index_of(const CacheEntry& entry) const {
    return static_cast<uint32_t>(&entry - entries_);
  }

  // Null: all are taken.
  CacheEntry* take() REQUIRES(cache_lock);
  void give(CacheEntry& entry) REQUIRES(cache_lock);
  // In the child of a fork: everything is free.
  void clear() REQUIRES(cache_lock);
  // All that were ever taken are below.
  uint32_t used() const REQUIRES(cache_lock) { return used_; }

  // How many users the entry has. Lock-free, like all that follows except restore().
  int32_t users(const CacheEntry& entry) const { return references_.out(index_of(entry)); }

  // The place in which the thread counts references here from now on; after open().
  uint32_t enter() { return references_.enter(); }
  bool has_entered(uint32_t place) const { return references_.has_entered(place); }

  // Takes a reference; true while it is live, and then what the entry holds does not change before
  // it is released. False: it must be released all the same.
  bool reference(uint32_t place, const CacheEntry& entry, uint32_t index) {
    references_.take(place, index);
    return entry.state.load(std::memory_order_seq_cst) == EntryState::kLive;
  }
  // Where no other thread can end the entry meanwhile.
  void reference(const CacheEntry& entry) { references_.take(index_of(entry)); }

  // False: perhaps that was its last user, or it was released more often than referenced. Then call
  // restore(), and then CachePolicy::claim().
  bool release(uint32_t place, const CacheEntry& entry, uint32_t index) {
    const bool taken_here = references_.give(place, index);
    return entry.state.load(std::memory_order_seq_cst) == EntryState::kLive && taken_here;
  }
  bool release(uint32_t place, uint32_t index) { return release(place, entries_[index], index); }
  // After release() returned false: the reference came from another thread, and others may still
  // find the entry, so there is nothing more to do.
  bool is_release_over(const CacheEntry& entry) const {
    return users(entry) >= 0 && entry.state.load(std::memory_order_seq_cst) == EntryState::kLive;
  }
  // True: the entry was released more often than referenced; the excess release is undone.
  bool restore(const CacheEntry& entry) REQUIRES(cache_lock) {
    if (users(entry) >= 0) return false;
    reference(entry);
    return true;
  }

 private:
  CacheEntry* entries_ = nullptr;
  References references_;
  uint32_t used_ GUARDED_BY(cache_lock) = 0;
  CacheEntry* free_ GUARDED_BY(cache_lock) = nullptr;  // below `used_`
};

// Zeroed memory is a valid free entry, so untouched entries need no construction.
inline CacheEntry* CacheEntries::take() {
  if (CacheEntry* const entry = free_) {
    free_ = entry->next;
    return entry;
  }
  return used_ < kCapacity ? &entries_[used_++] : nullptr;
}

inline void CacheEntries::give(CacheEntry& entry) {
  entry.next = free_;
  free_ = &entry;
}

}  // namespace rdmalloc
