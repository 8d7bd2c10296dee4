// The shelves that a pool's free buffers lie on by NUMA node, and how many buffers the pool holds.
// Buffers move between stocks and shelves under the lock here, so that a thread that looks through
// both misses nothing. Never inside malloc.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>

#include "allocator/os/topology.h"
#include "regcache/pool/pool_buffers.h"
#include "regcache/pool/stock.h"

namespace rdmalloc {

class Shelves {
 public:
  explicit Shelves(const PoolBuffers& buffers) : buffers_(buffers) {}
  Shelves(const Shelves&) = delete;
  Shelves& operator=(const Shelves&) = delete;

  void open();
  pthread_mutex_t* lock() { return &lock_; }

  // Of the pool, free or not.
  size_t held() const { return held_.load(std::memory_order_relaxed); }
  void note_destroyed() { held_.fetch_sub(1, std::memory_order_relaxed); }

  // Under the lock.
  void put(const PoolItem* items, size_t count);
  bool take(int node, PoolItem* out);
  bool take_any(PoolItem* out);
  void move_to(Stock* stock, int node, size_t most);
  size_t count() const;
  bool validate() const;

  // These and what follows take it.
  bool is_empty(int node);
  // A chunk that was asked for on this node came to lie elsewhere.
  bool is_misplaced(int node);
  void note_misplaced(int node);

  // Also under the growth lock. Makes room for that many buffers more of the node; false: no
  // memory.
  bool make_room(PoolMemory& memory, int node, size_t more);
  // Adds a chunk's buffers, for which there is room.
  void add(const Chunk& chunk);
  void release(PoolMemory& memory);

  // In the child of a fork, by the only thread there is.
  void note_fork_child() { lock_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  // The free buffers of one node: an array, used as a stack, with room for all of the node.
  struct Shelf {
    PoolItem* items = nullptr;
    size_t count = 0;
    size_t room = 0;
    size_t held = 0;  // of the node, free or not; under the growth lock
    bool is_misplaced = false;
  };

  const PoolBuffers& buffers_;
  std::atomic<size_t> held_{0};
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  Shelf shelves_[os::kMaxNodes];
};

}  // namespace rdmalloc
