// All pools of the process and what they share: the table of the window's units, the chunks'
// records, and the records of the threads' stocks. Constant-initialised; set up with the first
// pool.
//
// The lock is for short work on the lists here: no pool's lock is taken and no foreign code called
// under it. It is held over fork, so that a child finds the lists intact.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/region_observer.h"
#include "allocator/record_store.h"
#include "regcache/pool/pool.h"

namespace rdmalloc {

class Pools final : private RegionObserver {
 public:
  static constexpr size_t kMaxPools = ThreadStocks::kMaxPools;
  static constexpr size_t kMaxChunks = size_t{1} << 16;

  explicit constexpr Pools(PoolMemory& memory) : memory_(&memory) {}
  ~Pools() = default;
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  // rdm_pool_create, except for reading the caller's struct.
  int create(const PoolSettings& settings, Pool** out, Message* why);
  // Null: this is not an open pool.
  Pool* find(const rdm_pool* handle) const;

  // The calling thread's stock of this pool, of that capacity; made if there is none. Null: there
  // is no memory for it, and the thread does without.
  Stock* stock_of(Pool& pool, uint32_t capacity);
  // Gives back the calling thread's stocks: when it ends, and in tests.
  void end_thread();

  // Around fork; registered by whoever owns this (pool_api.cpp).
  void before_fork() { pthread_mutex_lock(&mutex_); }
  void after_fork_in_parent() { pthread_mutex_unlock(&mutex_); }
  void after_fork_in_child();

  PoolMemory& memory() const { return *memory_; }
  int node_here() const { return several_nodes_ ? os::current_node() : 0; }
  bool has_several_nodes() const { return several_nodes_; }
  bool is_fenced() const { return fenced_; }
  uintptr_t window_base() const { return window_base_; }
  size_t window_size() const { return window_size_; }
  std::atomic<uint32_t>* units() const { return units_; }
  const Chunk* chunks() const { return chunks_; }

  // The table of units refers to the chunk now: checks it for holes made since it was taken.
  void note_published(const Chunk& chunk) { mark_holes(chunk.base, chunk.base + chunk.bytes); }

  // Null: the maximum number exists.
  Chunk* take_chunk();
  void give_chunk(Chunk* chunk);
  void give_stock(Stock* stock);

 private:
  void on_acquire(const Region&) noexcept override {}
  void on_hole(const Region& region) noexcept override;
  void on_fork_child() noexcept override {}

  void mark_holes(uintptr_t from, uintptr_t to);
  bool start();
  bool set_up();
  Pool* take_pool(Message* why);
  int create_held(const PoolSettings& settings, Pool** out, Message* why);
  ThreadStocks* stocks_here();
  static void thread_ends(void* stocks);

  PoolMemory* const memory_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  bool started_ = false;
  bool fenced_ = true;
  bool several_nodes_ = false;
  pthread_key_t key_ = 0;  // its destructor tells that a thread ends
  uintptr_t window_base_ = 0;
  size_t window_size_ = 0;
  std::atomic<uint32_t>* units_ = nullptr;  // by unit of the window: the chunk's number, 0 for none
  Chunk* chunks_ = nullptr;                 // by number; the first is unused
  std::atomic<uint32_t> meeting_{0};        // of holes and new chunks
  Chunk* free_chunks_ = nullptr;
  size_t next_chunk_ = 1;
  std::atomic<Pool*> pools_[kMaxPools] = {};
  size_t next_pool_ = 0;  // used round-robin, so a closed pool is not reused soon
  RecordStore<Stock> stocks_;
  RecordStore<ThreadStocks> threads_;
};

}  // namespace rdmalloc
