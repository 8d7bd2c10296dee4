// Opened handles of other processes' memory: shared by concurrent users, and kept for the next user
// as long as the policy allows. They are found by peer and by the address there. Entries of one
// peer do not overlap, because a peer that exports memory again has freed what lay there.
//
// Hits take the lock, which costs nothing compared with opening. Handles are opened and closed
// without it (cache_core.h). Any thread, never inside malloc. In a child of fork a cache may only
// be closed. Never destroyed, only reopened.
#pragma once

#include <atomic>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/remote.h"
#include "regcache/foreign/cache_core.h"

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

  // Where an entry's memory is at its peer; the entry's own base is where it is here.
  struct Origin {
    uint64_t peer = 0;
    uint64_t base = 0;
    uint64_t length = 0;  // bytes
    CacheEntry::Hook by_peer GUARDED_BY(cache_lock);
    size_t handle_size = 0;
    unsigned char handle[RDM_REMOTE_MAX_HANDLE] = {};

    uint64_t end() const { return base + length; }
    // Whether `memory` is part of this, with the same handle.
    bool is_of(const rdm_remote_memory& memory) const;
    bool overlaps(const Origin& other) const;
  };
  struct ByPeer {
    bool operator()(const Origin& a, const Origin& b) const {
      return a.peer != b.peer ? a.peer < b.peer : a.base < b.base;
    }
  };
  using Origins = boost::intrusive::set<
      Origin, boost::intrusive::compare<ByPeer>,
      boost::intrusive::member_hook<Origin, CacheEntry::Hook, &Origin::by_peer>>;

  static Origin origin_of(const rdm_remote_memory& memory);

  Origin& origin(const CacheEntry& entry) const {
    return origins_[table().policy().entries().index_of(entry)];
  }
  CacheEntry& entry(const Origin& origin) {
    return table().policy().entries().at(static_cast<uint32_t>(&origin - origins_));
  }
  CacheTable& table() { return core_.table(); }
  const CacheTable& table() const { return core_.table(); }

  int refuse_forked() const;
  int find_or_open(const rdm_remote_memory& memory, rdm_remote_mapping* out) REQUIRES(cache_lock);
  Origin* first_overlapping(const Origin& range) REQUIRES(cache_lock);
  bool is_being_built(const Origin& range) const REQUIRES(cache_lock);
  bool doom_overlapping(const Origin& range) REQUIRES(cache_lock);
  int build(const Origin& range, CacheAttempt* attempt, CacheEntry* entry) REQUIRES(cache_lock);

  int make(CacheEntry& entry, CacheAttempt* attempt) EXCLUDES(cache_lock) override;
  int end(CacheEntry& entry, bool may_wait) EXCLUDES(cache_lock) override;
  void note_unindexed(CacheEntry& entry) REQUIRES(cache_lock) override;
  bool evict_overlapping(const CacheEntry& entry) REQUIRES(cache_lock) override;
  bool overlaps_what_is_used(const CacheEntry& entry) REQUIRES(cache_lock) override;

  CacheCore core_;
  std::atomic<Phase> phase_{Phase::kFree};
  rdm_remote_operations operations_{};
  void* context_ = nullptr;

  Origin* origins_ = nullptr;               // as many as entries; mapped once
  Origins by_peer_ GUARDED_BY(cache_lock);  // of what is in the table's index
  uint64_t hits_ GUARDED_BY(cache_lock) = 0;
};

}  // namespace rdmalloc
