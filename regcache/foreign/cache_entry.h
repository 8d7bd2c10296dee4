// A cache's record of one registration, or of one opened handle.
#pragma once

#include <atomic>
#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/options.hpp>
#include <boost/intrusive/set_hook.hpp>
#include <cstddef>
#include <cstdint>

#include "allocator/mutex.h"
#include "allocator/os/cache_line.h"
#include "include/rdmalloc/backend.h"

namespace rdmalloc {

enum class EntryState : uint32_t {
  kFree,
  kBuilding,   // being registered; not to be used yet
  kLive,       // may be used again
  kTransient,  // shared by those who ask while somebody uses it; ends with its last user
  kDoomed,     // belongs to its users; ends with the last of them
  kRemoving    // idle, and somebody's to deregister
};

struct alignas(os::kCacheLine) CacheEntry {
  using Hook =
      boost::intrusive::set_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;
  using Link = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::normal_link>>;

  // What a hit reads. Changed only while nobody can have a reference. A thread may still read it
  // then, and finds out that it has none.
  std::atomic<EntryState> state{EntryState::kFree};
  std::atomic<uint64_t> last_use{0};  // CachePolicy's clock
  std::atomic<uintptr_t> base{0};
  std::atomic<size_t> length{0};  // bytes
  std::atomic<uint64_t> keys{0};  // lkey, rkey as they lie in memory
  std::atomic<void*> handle{nullptr};

  alignas(os::kCacheLine) Hook in_index
      GUARDED_BY(cache_lock);  // of the cache: by address, by peer, ...
  // Of the cache while it is being built, and then of the policy, unless it is in `by_use`.
  Link in_turn GUARDED_BY(cache_lock);
  Hook by_use GUARDED_BY(cache_lock);  // of the policy: kLive, and listed anew
  // Its order there: last_use when it was looked at last, and of equals the one listed first.
  uint64_t listed_use GUARDED_BY(cache_lock) = 0;
  uint64_t listed_turn GUARDED_BY(cache_lock) = 0;
  CacheEntry* next GUARDED_BY(cache_lock) = nullptr;  // in the chain of those to deregister
  uint64_t charged GUARDED_BY(cache_lock) = 0;        // bytes counted for it
  bool is_counted GUARDED_BY(cache_lock) = false;     // by the policy, against its limits
  bool is_listed_anew GUARDED_BY(cache_lock) = false;
  bool changed GUARDED_BY(cache_lock) = false;  // the memory did while it was being registered

  uintptr_t begin() const { return base.load(std::memory_order_relaxed); }
  uintptr_t end() const { return begin() + length.load(std::memory_order_relaxed); }

  void set_key(const rdm_backend_key& key) {
    uint64_t both;
    __builtin_memcpy(&both, &key.lkey, sizeof both);
    keys.store(both, std::memory_order_relaxed);
    handle.store(key.handle, std::memory_order_relaxed);
  }
  rdm_backend_key key() const {
    rdm_backend_key key{};
    const uint64_t both = keys.load(std::memory_order_relaxed);
    __builtin_memcpy(&key.lkey, &both, sizeof both);
    key.handle = handle.load(std::memory_order_relaxed);
    return key;
  }
};

}  // namespace rdmalloc
