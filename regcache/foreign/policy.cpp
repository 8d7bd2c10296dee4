#include "regcache/foreign/policy.h"

#include <string.h>

#include <new>

#include "allocator/os/memory.h"

namespace rdmalloc {

bool CachePolicy::open(const CacheLimits& limits) {
  if (entries_ == nullptr) {
    constexpr size_t kEntriesBytes = kCapacity * sizeof(CacheEntry);
    void* const memory = os::map_metadata(kEntriesBytes + References::bytes());
    if (memory == nullptr) return false;
    references_.open(static_cast<char*>(memory) + kEntriesBytes);
    entries_ = static_cast<CacheEntry*>(memory);
  }
  limits_ = limits;
  if (limits_.count == 0 || limits_.count > kCapacity) limits_.count = kCapacity;
  return true;
}

// Zeroed memory is a valid free entry, so untouched entries need no construction.
CacheEntry* CachePolicy::take_free() {
  if (CacheEntry* const entry = free_) {
    free_ = entry->next;
    return entry;
  }
  return used_ < kCapacity ? &entries_[used_++] : nullptr;
}

void CachePolicy::uncount(CacheEntry& entry) {
  add_locked(bytes_, -entry.charged);
  add_locked(count_, -1U);
  entry.is_counted = false;
}

void CachePolicy::recount(CacheEntry& entry) {
  add_locked(bytes_, entry.charged);
  add_locked(count_, 1);
  entry.is_counted = true;
}

CacheEntry* CachePolicy::admit(uint64_t bytes) {
  if (count() >= limits_.count || bytes > limits_.bytes || this->bytes() > limits_.bytes - bytes) {
    return nullptr;
  }
  CacheEntry* const entry = take_free();
  if (entry == nullptr) return nullptr;
  entry->state.store(EntryState::kBuilding, std::memory_order_relaxed);
  entry->charged = bytes;
  entry->changed = false;
  recount(*entry);
  add_locked(clock_, 1);
  entry->last_use.store(clock_, std::memory_order_relaxed);
  return entry;
}

CacheEntry* CachePolicy::admit_instead_of(CacheEntry* victim, uint64_t bytes) {
  if (bytes < victim->charged) return nullptr;
  uncount(*victim);
  CacheEntry* const entry = admit(bytes);
  if (entry == nullptr) recount(*victim);
  return entry;
}

void CachePolicy::list(CacheEntry& entry) {
  const uint64_t use = entry.last_use.load(std::memory_order_relaxed);
  if (!in_turn_.empty() && in_turn_.back().listed_use > use) return list_anew(entry, use);
  entry.listed_use = use;
  entry.listed_turn = ++turn_;
  entry.is_listed_anew = false;
  in_turn_.push_back(entry);
}

void CachePolicy::list_anew(CacheEntry& entry, uint64_t use) {
  entry.listed_use = use;
  entry.listed_turn = ++turn_;
  entry.is_listed_anew = true;
  by_use_.insert(by_use_.end(), entry);
}

void CachePolicy::unlist(CacheEntry& entry) {
  if (entry.is_listed_anew) {
    by_use_.erase(by_use_.iterator_to(entry));
  } else {
    in_turn_.erase(in_turn_.iterator_to(entry));
  }
}

CacheEntry& CachePolicy::oldest() {
  if (by_use_.empty()) return in_turn_.front();
  const bool is_first = !in_turn_.empty() && ByUse()(in_turn_.front(), *by_use_.begin());
  return is_first ? in_turn_.front() : *by_use_.begin();
}

void CachePolicy::publish(CacheEntry& entry, EntryState state) {
  references_.take(index_of(entry));
  entry.state.store(state, std::memory_order_release);
  if (state == EntryState::kLive) list(entry);
}

CacheEntry* CachePolicy::choose_victim() {
  for (size_t in_use = 0; in_use < listed();) {
    CacheEntry& first = oldest();
    const uint64_t used = first.last_use.load(std::memory_order_relaxed);
    if (used != first.listed_use) {
      unlist(first);
      list_anew(first, used);
      // It may now be listed behind entries found in use, which then come up again.
      in_use = 0;
      continue;
    }
    if (doom_if_idle(first)) return &first;
    unlist(first);
    list_anew(first, clock_.load(std::memory_order_relaxed));
    first.last_use.store(first.listed_use, std::memory_order_relaxed);
    ++in_use;
  }
  return nullptr;
}

// Marks the entry doomed before checking for users: a thread that takes a reference meanwhile is
// either seen here or sees the mark.
bool CachePolicy::doom_if_idle(CacheEntry& entry) {
  const EntryState before = entry.state.load(std::memory_order_relaxed);
  entry.state.store(EntryState::kDoomed, std::memory_order_seq_cst);
  if (users(entry) > 0) {
    entry.state.store(before, std::memory_order_seq_cst);
    return false;
  }
  if (before == EntryState::kLive) unlist(entry);
  entry.state.store(EntryState::kRemoving, std::memory_order_relaxed);
  return true;
}

bool CachePolicy::doom(CacheEntry& entry) {
  if (entry.state.load(std::memory_order_relaxed) == EntryState::kLive) unlist(entry);
  entry.state.store(EntryState::kDoomed, std::memory_order_seq_cst);
  return claim(entry);
}

bool CachePolicy::claim(CacheEntry& entry) {
  const EntryState state = entry.state.load(std::memory_order_relaxed);
  if (state != EntryState::kDoomed && state != EntryState::kTransient) return false;
  if (users(entry) > 0) return false;
  entry.state.store(EntryState::kRemoving, std::memory_order_relaxed);
  return true;
}

void CachePolicy::remove(CacheEntry& entry) {
  if (entry.is_counted) uncount(entry);
  entry.state.store(EntryState::kFree, std::memory_order_release);
  entry.length.store(0, std::memory_order_relaxed);
  entry.next = free_;
  free_ = &entry;
}

void CachePolicy::clear() {
  if (entries_ == nullptr) return;
  in_turn_.clear();
  by_use_.clear();
  for (uint32_t i = 0; i < used_; ++i) new (&entries_[i]) CacheEntry();
  references_.clear(used_);
  used_ = 0;
  free_ = nullptr;
  bytes_ = 0;
  count_ = 0;
}

bool CachePolicy::validate() const {
  uint64_t bytes = 0;
  uint32_t count = 0;
  size_t live = 0;
  for (uint32_t i = 0; i < used_; ++i) {
    const EntryState state = entries_[i].state.load();
    if (state == EntryState::kFree || !entries_[i].is_counted) continue;
    bytes += entries_[i].charged;
    ++count;
    live += state == EntryState::kLive ? 1 : 0;
    if (references_.out(i) < 0) return false;
  }
  return bytes == bytes_ && count == count_ && live == listed() && count <= limits_.count &&
         bytes <= limits_.bytes;
}

}  // namespace rdmalloc
