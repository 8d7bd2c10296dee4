#include "regcache/foreign/cache_table.h"

namespace rdmalloc {

void CacheTable::insert(CacheEntry& entry) {
  index_.insert(entry);
  ++reindexed_;
}

void CacheTable::insert_before(EntriesByBase::iterator after, CacheEntry& entry) {
  if (after == index_.end()) {
    index_.push_back(entry);  // unlike insert_before(), does not search for the last one
  } else {
    index_.insert_before(after, entry);
  }
  ++reindexed_;
}

void CacheTable::erase(CacheEntry& entry) {
  index_.erase(index_.iterator_to(entry));
  ++reindexed_;
}

void CacheTable::clear() {
  index_.clear();
  ++reindexed_;
  building_.clear();
  doomed_.clear();
  policy_.clear();
}

}  // namespace rdmalloc
