// A pool: chunks of buffers with their keys, the shelves that free buffers lie on by NUMA node, and
// the stocks of the threads that use it (include/rdmalloc/pool.h).
//
//   get: own stock -> own node's shelf -> a new chunk -> other nodes' shelves -> others' stocks
//   put: own stock -> (full) its oldest half to the shelves of their nodes
//
// Where the program unmaps or replaces pages of a pool, their buffers are left out when a get finds
// them, and have no key; what it makes inaccessible is made accessible again, as free() does.
//
// get() and put() may be called from any thread; create() and close() by one, while no other is
// inside. Locks, outermost first: growth_, members_, shelf_lock_. Memory is allocated and looked up
// only under growth_; only gets that found nothing wait for it. Never inside malloc. Pools are
// never destroyed, only reused, so that a call that comes too late reads valid memory.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/message.h"
#include "allocator/os/topology.h"
#include "include/rdmalloc/pool.h"
#include "regcache/pool/chunk.h"
#include "regcache/pool/stock.h"

namespace rdmalloc {

class PoolMemory;

// What create() is asked for, checked.
struct PoolSettings {
  rdm_domain* domain = nullptr;
  size_t buffer_bytes = 0;
  size_t alignment = 0;
  size_t reserve = 0;
  size_t most = SIZE_MAX;
  size_t grow_by = 0;
  unsigned flags = 0;
};

class Pool {
 public:
  explicit Pool(uint32_t number) : number_(number) {}
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
  void reserve_for(Pools& pools);
  bool is_in_use() const { return phase_.load(std::memory_order_acquire) != Phase::kFree; }
  uint32_t number() const { return number_; }

  // A thread joins with a stock of its own, and leaves.
  void join(Stock* stock, std::atomic<Stock*>* place);
  // What was in `place`; null: a pool that was closed meanwhile has taken it.
  Stock* leave(std::atomic<Stock*>* place);

  // In the child of a fork, by the only thread there is.
  void note_fork_child();

  // Every buffer that is held is in one place, and says so; for tests, while nobody gets or puts.
  bool validate();

 private:
  enum class Phase : uint8_t { kFree, kStarting, kOpen, kForked };
  class StockUse;
  class Revoked;

  // The free buffers of one node: an array, used as a stack, with room for all of the node.
  struct Shelf {
    PoolItem* items = nullptr;
    size_t count = 0;
    size_t room = 0;
    size_t held = 0;            // of the node, free or not; under growth_
    bool is_misplaced = false;  // a chunk that was asked for there came to lie elsewhere
  };

  const Chunk* chunk_of(const void* address) const;
  bool claim(const void* address, PoolItem* out) const;
  // False, and nothing happened: the chunk has holes.
  bool hand_out(const PoolItem& item, rdm_buffer* out) const;
  void fill(const PoolItem& item, const rdm_mr& key, rdm_buffer* out) const;

  static int get_slowly(Pool* pool, rdm_buffer* out);
  int get_beside_holes(const PoolItem& item, rdm_buffer* out);
  bool hand_out_checked(const PoolItem& item, rdm_buffer* out);
  int obtain(rdm_buffer* out);
  bool find(Stock* stock, PoolItem* out);
  int refuse_get();
  static int refuse_put(Pool* pool, const void* address);
  int refuse_unless_open() const;
  int give_back(const PoolItem& item);

  // pool_stocks.cpp
  bool refill(Stock* stock, int node, PoolItem* out);
  bool take_anywhere(PoolItem* out);
  bool steal(Stock* mine, PoolItem* out);
  bool take_from_shelves(PoolItem* out);
  void shelve(const PoolItem* items, size_t count);
  size_t free_now() const;
  Stock* disband();

  // pool_growth.cpp
  int grow(int node);
  bool may_grow_apart(int node);
  size_t next_step() const;
  int add_chunk_or_less(size_t wanted, Message* why);
  int add_chunk(size_t wanted, Message* why);
  int take_memory(size_t wanted, Chunk* chunk, Message* why);
  bool make_room(int node, size_t more);
  void publish(Chunk* chunk);
  void withdraw(Chunk* chunk);
  void discard(Chunk* chunk);
  void release_memory();
  size_t batch_for(const PoolSettings& settings) const;

  // pool_reserve.cpp
  int fill_reserve(Message* why);
  int take_reserve(Message* reason);

  // pool_keys.cpp
  int find_keys(Chunk* chunk, Message* why);
  int find_keys_apart(Chunk* chunk, Message* why);
  void say_no_key(const Chunk& chunk, int status, Message* why) const;

  // What the fast paths read.
  const uint32_t number_;
  bool fenced_ = false;
  size_t length_ = 0;  // bytes of a buffer, as asked for
  uintptr_t window_base_ = 0;
  size_t window_size_ = 0;
  const std::atomic<uint32_t>* units_ = nullptr;
  const Chunk* chunks_ = nullptr;  // of all pools, by number

  std::atomic<Phase> phase_{Phase::kFree};
  Pools* pools_ = nullptr;
  PoolMemory* memory_ = nullptr;
  PoolSettings settings_;
  uint32_t stride_ = 0;
  uint32_t batch_ = 1;  // buffers that a thread exchanges with the shelves at a time

  pthread_mutex_t growth_ = PTHREAD_MUTEX_INITIALIZER;
  Chunk* first_chunk_ = nullptr;  // added to under growth_
  uint64_t refused_at_ = 0;       // under growth_: when growing failed last, ...
  int refused_status_ = 0;        // ... how, ...
  char refused_why_[192] = {};    // ... and why
  std::atomic<size_t> held_{0};
  std::atomic<uint64_t> grown_{0};
  std::atomic<uint64_t> failed_{0};

  pthread_mutex_t members_ = PTHREAD_MUTEX_INITIALIZER;
  Stock* first_stock_ = nullptr;

  pthread_mutex_t shelf_lock_ = PTHREAD_MUTEX_INITIALIZER;
  Shelf shelves_[os::kMaxNodes];
};

inline const Chunk* Pool::chunk_of(const void* address) const {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - window_base_;
  if (offset >= window_size_) return nullptr;
  const uint32_t number = units_[offset >> Chunk::kUnitShift].load(std::memory_order_acquire);
  const Chunk& chunk = chunks_[number];
  return chunk.pool.load(std::memory_order_relaxed) == this ? &chunk : nullptr;
}

// Makes the buffer free. False: no buffer of this pool starts there, or it is not in use. The
// atomic exchange lets only one of two threads succeed that put the same buffer at once.
inline bool Pool::claim(const void* address, PoolItem* out) const {
  const Chunk* chunk = chunk_of(address);
  uint32_t index = 0;
  if (chunk == nullptr || !chunk->index_of(address, &index)) return false;
  constexpr auto kOut = static_cast<uint8_t>(BufferState::kOut);
  std::atomic<uint8_t>& state = chunk->state_of(index);
  uint8_t expected = kOut;
  if (state.load(std::memory_order_relaxed) != kOut ||
      !state.compare_exchange_strong(expected, static_cast<uint8_t>(BufferState::kFree),
                                     std::memory_order_relaxed)) {
    return false;
  }
  *out = PoolItem(chunk->number, index);
  return true;
}

inline bool Pool::hand_out(const PoolItem& item, rdm_buffer* out) const {
  const Chunk& chunk = chunks_[item.chunk()];
  const rdm_mr* const keys = chunk.keys.load(std::memory_order_relaxed);
  if (keys == nullptr) [[unlikely]]
    return false;
  fill(item, keys[item.index() & chunk.key_mask], out);
  return true;
}

inline void Pool::fill(const PoolItem& item, const rdm_mr& key, rdm_buffer* out) const {
  const Chunk& chunk = chunks_[item.chunk()];
  const uint32_t index = item.index();
  chunk.state_of(index).store(static_cast<uint8_t>(BufferState::kOut), std::memory_order_relaxed);
  out->address = chunk.address_of(index);
  out->length = length_;
  out->lkey = key.lkey;
  out->rkey = key.rkey;
  out->handle = key.handle;
}

// A hit. The slow path handles everything else.
[[gnu::always_inline]] inline int Pool::get(Pool* pool, rdm_buffer* out) {
  if (pool != nullptr && out != nullptr) [[likely]] {
    Stock* const stock = ThreadStocks::find(pool->number_);
    if (stock != nullptr && stock->enter(pool->fenced_)) [[likely]] {
      PoolItem item;
      const bool popped = stock->pop(&item);
      stock->leave();
      if (popped) [[likely]] {
        if (pool->hand_out(item, out)) [[likely]]
          return RDM_OK;
        return pool->get_beside_holes(item, out);
      }
    }
  }
  return get_slowly(pool, out);
}

[[gnu::always_inline]] inline int Pool::put(Pool* pool, void* address) {
  PoolItem item;
  if (pool == nullptr || !pool->claim(address, &item)) [[unlikely]]
    return refuse_put(pool, address);
  Stock* const stock = ThreadStocks::find(pool->number_);
  if (stock != nullptr && stock->enter(pool->fenced_)) [[likely]] {
    const bool pushed = stock->push(item);
    stock->leave();
    if (pushed) [[likely]]
      return RDM_OK;
  }
  return pool->give_back(item);
}

}  // namespace rdmalloc
