// A pool: buffers with their keys, which of them are free, and how it grows
// (include/rdmalloc/pool.h). Here is how these work together:
//
//   get: own stock -> own node's shelf -> a new chunk -> other nodes' shelves -> others' stocks
//   put: own stock -> (full) its oldest half to the shelves of their nodes
//
// Where the program unmaps or replaces pages of a pool, their buffers are left out when a get finds
// them, and have no key; what it makes inaccessible is made accessible again, as free() does.
//
// get() and put() may be called from any thread; create() and close() by one, while no other is
// inside. Never inside malloc. Locks, outermost first: that of PoolGrowth, those of FreeBuffers.
// Pools are never destroyed, only reused, so that a call that comes too late reads valid memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/message.h"
#include "include/rdmalloc/pool.h"
#include "regcache/pool/free_buffers.h"
#include "regcache/pool/pool_buffers.h"
#include "regcache/pool/pool_growth.h"

namespace rdmalloc {

class Pool {
 public:
  // Once `pools` is set up.
  Pool(Pools& pools, uint32_t number);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Null pointers are RDM_INVALID.
  static int get(Pool* pool, rdm_buffer* out);
  static int put(Pool* pool, void* address);
  static int key(Pool* pool, const void* address, rdm_mr* out);

  // `why`: a sentence when the status is not RDM_OK.
  int create(const PoolSettings& settings, Message* why);
  int close();
  int counts(rdm_pool_counts* out);

  // Before create(): it is in use from here on. Under the lock of the pools.
  void take_for_use() { phase_.store(Phase::kStarting, std::memory_order_release); }
  bool is_in_use() const { return phase_.load(std::memory_order_acquire) != Phase::kFree; }
  uint32_t number() const { return number_; }
  FreeBuffers& free_buffers() { return free_; }

  // In the child of a fork, by the only thread there is.
  void note_fork_child();

  // Every buffer that is held is in one place, and says so; for tests, while nobody gets or puts.
  bool validate();

 private:
  enum class Phase : uint8_t { kFree, kStarting, kOpen, kForked };

  static int get_slowly(Pool* pool, rdm_buffer* out);
  int get_beside_holes(const PoolItem& item, rdm_buffer* out);
  static int refuse_put(Pool* pool, const void* address);
  int refuse_unless_open() const;
  int give_back(const PoolItem& item);

  // What the fast paths read lies in one cache line: all of `buffers_`, and the first of `free_`.
  PoolBuffers buffers_;
  const uint32_t number_;
  FreeBuffers free_;
  PoolGrowth growth_;
  Pools& pools_;
  std::atomic<Phase> phase_{Phase::kFree};
  std::atomic<uint64_t> failed_{0};
};

// A hit. The slow path handles everything else.
[[gnu::always_inline]] inline int Pool::get(Pool* pool, rdm_buffer* out) {
  if (pool != nullptr && out != nullptr) [[likely]] {
    Stock* const stock = ThreadStocks::find(pool->number_);
    if (stock != nullptr && stock->enter(pool->free_.is_fenced())) [[likely]] {
      PoolItem item;
      const bool popped = stock->pop(&item);
      stock->leave();
      if (popped) [[likely]] {
        if (pool->buffers_.hand_out(item, out)) [[likely]]
          return RDM_OK;
        return pool->get_beside_holes(item, out);
      }
    }
  }
  return get_slowly(pool, out);
}

[[gnu::always_inline]] inline int Pool::put(Pool* pool, void* address) {
  PoolItem item;
  if (pool == nullptr || !pool->buffers_.claim(address, &item)) [[unlikely]]
    return refuse_put(pool, address);
  Stock* const stock = ThreadStocks::find(pool->number_);
  if (stock != nullptr && stock->enter(pool->free_.is_fenced())) [[likely]] {
    const bool pushed = stock->push(item);
    stock->leave();
    if (pushed) [[likely]]
      return RDM_OK;
  }
  return pool->give_back(item);
}

}  // namespace rdmalloc
