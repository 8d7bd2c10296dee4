#include "regcache/pool/pool_list.h"

#include <new>

#include "allocator/os/memory.h"

namespace rdmalloc {

Pool* PoolList::take(Pools& owner, Message* why) {
  for (size_t i = 0; i < kMost; ++i) {
    const size_t number = (next_ + i) % kMost;
    Pool* known = pools_[number].load(std::memory_order_relaxed);
    if (known != nullptr && known->is_in_use()) continue;
    if (known == nullptr) {
      void* const memory = os::map_metadata(sizeof(Pool));
      if (memory == nullptr) break;
      known = new (memory) Pool(owner, static_cast<uint32_t>(number));
      pools_[number].store(known, std::memory_order_release);
    }
    next_ = (number + 1) % kMost;
    known->take_for_use();
    return known;
  }
  why->add("too many pools are open, or there is no memory for another's books: close one");
  return nullptr;
}

Pool* PoolList::find(const rdm_pool* handle) const {
  for (const std::atomic<Pool*>& place : pools_) {
    Pool* const known = place.load(std::memory_order_acquire);
    if (known == nullptr || static_cast<const void*>(known) != handle) continue;
    return known->is_in_use() ? known : nullptr;
  }
  return nullptr;
}

void PoolList::note_fork_child() {
  for (const std::atomic<Pool*>& place : pools_) {
    Pool* const known = place.load(std::memory_order_relaxed);
    if (known != nullptr) known->note_fork_child();
  }
}

}  // namespace rdmalloc
