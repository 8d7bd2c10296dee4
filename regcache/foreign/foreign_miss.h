// One get of foreign memory that missed on the fast path: finds an entry or makes one. Under the
// cache's lock, never inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regcache/foreign/cache_core.h"
#include "regcache/foreign/foreign_operations.h"
#include "regcache/foreign/page_memo.h"

namespace rdmalloc {

class ForeignMiss {
 public:
  // `may_watch`: see Monitor::look().
  ForeignMiss(CacheCore& core, ForeignOperations& operations, PageMemo& memo, bool may_watch);
  ForeignMiss(const ForeignMiss&) = delete;
  ForeignMiss& operator=(const ForeignMiss&) = delete;

  // Once, as rdm_get. Unlocks.
  int get(uintptr_t at, size_t length, rdm_mr* out) REQUIRES(cache_lock);

 private:
  int check() REQUIRES(cache_lock);
  bool may_stay(const EntryRange& range) const REQUIRES(cache_lock);
  EntryRange widened() REQUIRES(cache_lock);
  void hand_out(const CacheEntry& entry, rdm_mr* out);
  void publish(const EntryRange& range, CacheEntry* entry) REQUIRES(cache_lock);

  // These unlock, so the caller must look again.
  int find_or_build(rdm_mr* out) REQUIRES(cache_lock);
  CacheEntry* admit(size_t length) REQUIRES(cache_lock);
  int build(const EntryRange& range, CacheEntry* entry, rdm_mr* out) REQUIRES(cache_lock);

  CacheCore& core_;
  CacheTable& table_;
  CachePolicy& policy_;
  EntryEnder& ender_;
  ForeignOperations& operations_;
  PageMemo& memo_;

  uintptr_t at_ = 0;
  size_t length_ = 0;
  EntryRange wanted_{0, 0};
  bool may_widen_ = true;
  ForeignAttempt attempt_;
  // The gap that the wanted range lies in, as long as the table's reindexed() has this value.
  EntryGap gap_{};
  uint64_t gap_at_ = 0;
};

}  // namespace rdmalloc
