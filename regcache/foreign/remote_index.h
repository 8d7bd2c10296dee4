// Where the memory of a remote cache's entries is at their peers, and which entries are there.
// Those in this index are those in the cache's table. Under the cache's lock, except origin_of().
#pragma once

#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/remote.h"
#include "regcache/foreign/cache_entries.h"

namespace rdmalloc {

// Where an entry's memory is at its peer; the entry's own base is where it is here.
struct RemoteOrigin {
  static RemoteOrigin of(const rdm_remote_memory& memory);

  uint64_t peer = 0;
  uint64_t base = 0;
  uint64_t length = 0;  // bytes
  CacheEntry::Hook by_peer GUARDED_BY(cache_lock);
  size_t handle_size = 0;
  unsigned char handle[RDM_REMOTE_MAX_HANDLE] = {};

  uint64_t end() const { return base + length; }
  // Whether `memory` is part of this, with the same handle.
  bool is_of(const rdm_remote_memory& memory) const;
  bool overlaps(const RemoteOrigin& other) const;
};
class RemoteIndex {
 public:
  explicit RemoteIndex(CacheEntries& entries) : entries_(entries) {}
  RemoteIndex(const RemoteIndex&) = delete;
  RemoteIndex& operator=(const RemoteIndex&) = delete;

  // Takes memory at the first call, and keeps it. False: there is none.
  bool open() REQUIRES(cache_lock);

  RemoteOrigin& origin_of(const CacheEntry& entry) const {
    return origins_[entries_.index_of(entry)];
  }
  // Before it is built.
  void set_origin(const CacheEntry& entry, const RemoteOrigin& origin) REQUIRES(cache_lock);

  CacheEntry* first_overlapping(const RemoteOrigin& range) REQUIRES(cache_lock);
  void insert(const CacheEntry& entry) REQUIRES(cache_lock);
  void erase(const CacheEntry& entry) REQUIRES(cache_lock);
  size_t size() const REQUIRES(cache_lock) { return by_peer_.size(); }
  void clear() REQUIRES(cache_lock) { by_peer_.clear(); }
  bool validate() const REQUIRES(cache_lock);

 private:
  struct ByPeer {
    bool operator()(const RemoteOrigin& a, const RemoteOrigin& b) const {
      return a.peer != b.peer ? a.peer < b.peer : a.base < b.base;
    }
  };
  using Origins = boost::intrusive::set<
      RemoteOrigin, boost::intrusive::compare<ByPeer>,
      boost::intrusive::member_hook<RemoteOrigin, CacheEntry::Hook, &RemoteOrigin::by_peer>>;

  CacheEntries& entries_;
  RemoteOrigin* origins_ = nullptr;  // as many as entries; mapped once
  Origins by_peer_ GUARDED_BY(cache_lock);
};

}  // namespace rdmalloc
