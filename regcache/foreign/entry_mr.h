// A registration's entry as what rdm_get returns. Lock-free: whoever has no reference to the entry
// may read a mixture, and finds that out afterwards.
#pragma once

#include "include/rdmalloc/rdmalloc.h"
#include "regcache/foreign/cache_entry.h"

namespace rdmalloc {

inline void fill_key(const CacheEntry& entry, rdm_mr* out) {
  const uint64_t keys = entry.keys.load(std::memory_order_relaxed);
  __builtin_memcpy(&out->lkey, &keys, sizeof keys);
  out->handle = entry.handle.load(std::memory_order_relaxed);
}

inline void fill(const CacheEntry& entry, rdm_mr* out) {
  out->base = reinterpret_cast<void*>(entry.begin());
  out->length = entry.length.load(std::memory_order_relaxed);
  fill_key(entry, out);
}

inline bool is_of(const CacheEntry& entry, const rdm_mr& mr) {
  uint64_t keys;
  __builtin_memcpy(&keys, &mr.lkey, sizeof keys);
  return entry.begin() == reinterpret_cast<uintptr_t>(mr.base) &&
         entry.length.load(std::memory_order_relaxed) == mr.length &&
         entry.keys.load(std::memory_order_relaxed) == keys &&
         entry.handle.load(std::memory_order_relaxed) == mr.handle;
}

}  // namespace rdmalloc
