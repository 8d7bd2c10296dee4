#include "regcache/foreign/entry_ranges.h"

#include <iterator>

namespace rdmalloc {

CacheEntry* first_overlapping(CacheTable& table, const EntryRange& range) {
  EntriesByBase& index = table.index();
  auto at = index.upper_bound(range.base, ByBase());
  if (at != index.begin()) {
    auto before = at;
    if ((--before)->end() > range.base) at = before;
  }
  return at != index.end() && at->begin() < range.end ? &*at : nullptr;
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
