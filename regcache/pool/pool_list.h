// The records of all pools, by number. Found without a lock; taken under that of Pools. Records are
// made when they are first needed, and stay.
#pragma once

#include <atomic>
#include <cstddef>

#include "regcache/pool/pool.h"

namespace rdmalloc {

class PoolList {
 public:
  static constexpr size_t kMost = ThreadStocks::kMaxPools;

  constexpr PoolList() = default;
  PoolList(const PoolList&) = delete;
  PoolList& operator=(const PoolList&) = delete;

  // A pool that is free, and now in use. Null: there is none.
  Pool* take(Pools& owner, Message* why);
  // Null: this is not an open pool.
  Pool* find(const rdm_pool* handle) const;
  // One that exists.
  Pool& at(size_t number) const { return *pools_[number].load(std::memory_order_acquire); }

  void note_fork_child();

 private:
  std::atomic<Pool*> pools_[kMost] = {};
  size_t next_ = 0;  // used round-robin, so a closed pool is not reused soon
};

}  // namespace rdmalloc
