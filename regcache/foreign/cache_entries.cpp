#include "regcache/foreign/cache_entries.h"

#include <new>

#include "allocator/os/memory.h"

namespace rdmalloc {

bool CacheEntries::open() {
  if (is_open()) return true;
  constexpr size_t kEntriesBytes = kCapacity * sizeof(CacheEntry);
  void* const memory = os::map_metadata(kEntriesBytes + References::bytes());
  if (memory == nullptr) return false;
  references_.open(static_cast<char*>(memory) + kEntriesBytes);
  entries_ = static_cast<CacheEntry*>(memory);
  return true;
}

void CacheEntries::clear() {
  for (uint32_t i = 0; i < used_; ++i) new (&entries_[i]) CacheEntry();
  references_.clear(used_);
  used_ = 0;
  free_ = nullptr;
}

}  // namespace rdmalloc
