#include "regcache/foreign/entry_ranges.h"

#include <iterator>

namespace rdmalloc {

EntryGap gap_of(CacheTable& table, uintptr_t at) {
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

bool lies_in(CacheTable& table, const EntryRange& range, const EntryGap& gap) {
  return (gap.after == table.index().end() || gap.after->begin() >= range.end) &&
         (gap.before == nullptr || gap.before->end() <= range.base);
}

CacheEntry* first_overlapping(CacheTable& table, const EntryRange& range) {
  EntriesByBase& index = table.index();
  auto at = index.upper_bound(range.base, ByBase());
  if (at != index.begin()) {
    auto before = at;
    if ((--before)->end() > range.base) at = before;
  }
  return at != index.end() && at->begin() < range.end ? &*at : nullptr;
}

bool is_being_built(const CacheTable& table, const EntryRange& range) {
  for (const CacheEntry& entry : table.building()) {
    if (range.overlaps(entry)) return true;
  }
  return false;
}

EntryRange united(CacheTable& table, EntryRange range) {
  if (const CacheEntry* const first = first_overlapping(table, range)) {
    if (first->begin() < range.base) range.base = first->begin();
  }
  const auto after = table.index().lower_bound(range.end, ByBase());
  if (after != table.index().begin()) {
    auto last = after;
    if ((--last)->end() > range.end) range.end = last->end();
  }
  return range;
}

}  // namespace rdmalloc
