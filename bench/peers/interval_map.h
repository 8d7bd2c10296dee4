// The obvious first implementation: an ordered map of registered buffers under a reader-writer
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>

#include "rdmalloc/rdmalloc.h"

namespace rdmalloc::bench {

// Thread-safe.
class IntervalMap {
 public:
  void add(void* base, size_t length, uint32_t key);
  // Like rdm_lookup().
  int find(const void* address, size_t length, rdm_mr* out) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, rdm_mr> by_base_;
};

}  // namespace rdmalloc::bench
