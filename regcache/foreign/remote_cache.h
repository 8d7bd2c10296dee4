// Opened handles of other processes' memory: shared by concurrent users, and kept for the next user
// as long as the policy allows. They are found by peer and by the address there. Entries of one
// peer do not overlap, because a peer that exports memory again has freed what lay there.
//
// Hits take the lock, which costs nothing compared with opening. Handles are opened and closed
// without it (cache_core.h). Any thread, never inside malloc. In a child of fork a cache may only
// be closed. Never destroyed, only reopened.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/remote.h"
#include "regcache/foreign/cache_core.h"
#include "regcache/foreign/remote_index.h"

namespace rdmalloc {

struct RemoteSettings {
  CacheLimits limits;
  uint32_t wait_ms = 0;  // milliseconds to wait when all that is open is in use
};

class RemoteCache final : private CacheOperations {
 public:
  RemoteCache();

  // Opens a cache that is free. False: there is no memory. Uses `context` until it is closed.
  bool open(const rdm_remote_operations& operations, void* context, const RemoteSettings& settings)
      EXCLUDES(cache_lock);

  // As in remote.h; on failure last_error() holds the sentence.
  int close() EXCLUDES(cache_lock);
  int get(const rdm_remote_memory& memory, rdm_remote_mapping* out) EXCLUDES(cache_lock);
  int put(const rdm_remote_mapping& mapping) EXCLUDES(cache_lock);
  void forget(uint64_t peer, uint64_t base, uint64_t length) EXCLUDES(cache_lock);
  int counts(rdm_remote_counts* out) EXCLUDES(cache_lock);

  // From open() to the end of close().
  bool is_in_use() const { return phase_.load(std::memory_order_acquire) != Phase::kFree; }

  // Without the lock: see forget_all().
  void note_fork_child() NO_THREAD_SAFETY_ANALYSIS;
  bool validate() EXCLUDES(cache_lock);

 private:
  enum class Phase : uint8_t { kFree, kOpen, kForked };

  CacheTable& table() { return core_.table(); }

  int refuse_forked() const;
  int find_or_open(const rdm_remote_memory& memory, rdm_remote_mapping* out) REQUIRES(cache_lock);
  int build(const RemoteOrigin& range, CacheAttempt* attempt, CacheEntry* entry)
      REQUIRES(cache_lock);

  int make(CacheEntry& entry, CacheAttempt* attempt) EXCLUDES(cache_lock) override;
  int end(CacheEntry& entry, bool may_wait) EXCLUDES(cache_lock) override;
  void note_unindexed(CacheEntry& entry) REQUIRES(cache_lock) override;
  bool evict_overlapping(const CacheEntry& entry) REQUIRES(cache_lock) override;
  bool overlaps_what_is_used(const CacheEntry& entry) REQUIRES(cache_lock) override;

  CacheCore core_;
  RemoteIndex index_;
  std::atomic<Phase> phase_{Phase::kFree};
  rdm_remote_operations operations_{};
  void* context_ = nullptr;
  uint64_t hits_ GUARDED_BY(cache_lock) = 0;
};

}  // namespace rdmalloc
