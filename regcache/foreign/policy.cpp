#include "regcache/foreign/policy.h"

namespace rdmalloc {

bool CachePolicy::open(const CacheLimits& limits) {
  if (!entries_.open()) return false;
  account_.open(limits);
  return true;
}

CacheEntry* CachePolicy::admit(uint64_t bytes) {
  if (!account_.has_room(bytes)) return nullptr;
  CacheEntry* const entry = entries_.take();
  if (entry == nullptr) return nullptr;
  entry->state.store(EntryState::kBuilding, std::memory_order_relaxed);
  entry->charged = bytes;
  entry->changed = false;
  account_.add(*entry);
  add_locked(clock_, 1);
  entry->last_use.store(clock_, std::memory_order_relaxed);
  return entry;
}

CacheEntry* CachePolicy::admit_instead_of(CacheEntry* victim, uint64_t bytes) {
  if (bytes < victim->charged) return nullptr;
  account_.remove(*victim);
  CacheEntry* const entry = admit(bytes);
  if (entry == nullptr) recount(*victim);
  return entry;
}

void CachePolicy::publish(CacheEntry& entry, EntryState state) {
  entries_.reference(entry);
  entry.state.store(state, std::memory_order_release);
  if (state == EntryState::kLive) order_.add(entry);
}

CacheEntry* CachePolicy::choose_victim() {
  for (size_t in_use = 0; in_use < order_.size();) {
    CacheEntry& first = order_.oldest();
    const uint64_t used = first.last_use.load(std::memory_order_relaxed);
    if (used != first.listed_use) {
      order_.move(first, used);
      // It may now be listed behind entries found in use, which then come up again.
      in_use = 0;
      continue;
    }
    if (doom_if_idle(first)) return &first;
    order_.move(first, clock_.load(std::memory_order_relaxed));
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
  if (entries_.users(entry) > 0) {
    entry.state.store(before, std::memory_order_seq_cst);
    return false;
  }
  if (before == EntryState::kLive) order_.remove(entry);
  entry.state.store(EntryState::kRemoving, std::memory_order_relaxed);
  return true;
}

bool CachePolicy::doom(CacheEntry& entry) {
  if (entry.state.load(std::memory_order_relaxed) == EntryState::kLive) order_.remove(entry);
  entry.state.store(EntryState::kDoomed, std::memory_order_seq_cst);
  return claim(entry);
}

bool CachePolicy::claim(CacheEntry& entry) {
  const EntryState state = entry.state.load(std::memory_order_relaxed);
  if (state != EntryState::kDoomed && state != EntryState::kTransient) return false;
  if (entries_.users(entry) > 0) return false;
  entry.state.store(EntryState::kRemoving, std::memory_order_relaxed);
  return true;
}

void CachePolicy::remove(CacheEntry& entry) {
  if (entry.is_counted) account_.remove(entry);
  entry.state.store(EntryState::kFree, std::memory_order_release);
  entry.length.store(0, std::memory_order_relaxed);
  entries_.give(entry);
}

void CachePolicy::clear() {
  if (!entries_.is_open()) return;
  order_.clear();
  entries_.clear();
  account_.clear();
}

bool CachePolicy::validate() const {
  uint64_t bytes = 0;
  uint32_t count = 0;
  size_t live = 0;
  for (uint32_t i = 0; i < entries_.used(); ++i) {
    const CacheEntry& entry = entries_.at(i);
    const EntryState state = entry.state.load();
    if (state == EntryState::kFree || !entry.is_counted) continue;
    bytes += entry.charged;
    ++count;
    live += state == EntryState::kLive ? 1 : 0;
    if (entries_.users(entry) < 0) return false;
  }
  const CacheLimits& limits = account_.limits();
  return bytes == account_.bytes() && count == account_.count() && live == order_.size() &&
         count <= limits.count && bytes <= limits.bytes;
}

}  // namespace rdmalloc
