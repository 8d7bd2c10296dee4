// Which entries of a cache of foreign memory overlap a range of addresses. Those in the index do
// not overlap each other. Under the cache's lock, also inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_table.h"

namespace rdmalloc {

// In whole units of the device's alignment: what a get asks for, or what it extends that to.
struct EntryRange {
  uintptr_t base, end;
  size_t length() const { return end - base; }
  bool overlaps(const CacheEntry& entry) const { return entry.begin() < end && base < entry.end(); }
  static EntryRange of(const CacheEntry& entry) { return {entry.begin(), entry.end()}; }
};

// What lies before and after an address in the index; `before`: null if nothing does.
struct EntryGap {
  CacheEntry* before;
  EntriesByBase::iterator after;
};

EntryGap gap_of(CacheTable& table, uintptr_t at) REQUIRES(cache_lock);
// Whether nothing indexed overlaps the range. The gap is that of one of its bytes.
bool lies_in(CacheTable& table, const EntryRange& range, const EntryGap& gap) REQUIRES(cache_lock);
CacheEntry* first_overlapping(CacheTable& table, const EntryRange& range) REQUIRES(cache_lock);
bool is_being_built(const CacheTable& table, const EntryRange& range) REQUIRES(cache_lock);
// The range, extended by all indexed entries that overlap it.
EntryRange united(CacheTable& table, EntryRange range) REQUIRES(cache_lock);

inline EntryGap gap_of(CacheTable& table, uintptr_t at) {
  CacheEntries& entries = table.policy().entries();
  CacheEntry* before = nullptr;
  // What the search passes last on its way down is next to what it finds.
  const auto is_after = [&](uintptr_t address, const CacheEntry& entry) {
    if (address < entry.begin()) return true;
    before = &entries.at(entries.index_of(entry));
    return false;
  };
  const auto after = table.index().upper_bound(at, is_after);
  return {before, after};
}

inline bool lies_in(CacheTable& table, const EntryRange& range, const EntryGap& gap) {
  return (gap.after == table.index().end() || gap.after->begin() >= range.end) &&
         (gap.before == nullptr || gap.before->end() <= range.base);
}

inline bool is_being_built(const CacheTable& table, const EntryRange& range) {
  for (const CacheEntry& entry : table.building()) {
    if (range.overlaps(entry)) return true;
  }
  return false;
}

}  // namespace rdmalloc
