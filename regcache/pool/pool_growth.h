// How a pool grows by chunks: when, by how much, and what is said if it cannot. Memory is allocated
// and looked up only under the lock here, the outermost of a pool's, or while the pool starts or
// closes. Only gets that found nothing wait for it. Never inside malloc.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/message.h"
#include "regcache/pool/chunk_source.h"
#include "regcache/pool/pool_settings.h"
#include "regcache/pool/shelves.h"

namespace rdmalloc {

class Pools;

class PoolGrowth {
 public:
  // Adds what it takes to `buffers` and `shelves`.
  PoolGrowth(Pools& pools, const PoolBuffers& buffers, Shelves& shelves);
  PoolGrowth(const PoolGrowth&) = delete;
  PoolGrowth& operator=(const PoolGrowth&) = delete;

  void open(const PoolSettings& settings);
  const PoolSettings& settings() const { return settings_; }
  uint32_t stride() const { return source_.stride(); }  // bytes from one buffer to the next

  // Takes the buffers that are reserved at creation. `why`: a sentence when it fails.
  int fill_reserve(Message* why);
  // By a chunk, if it can be on that node. Also RDM_OK if another thread was faster.
  int grow(int node);
  void say_refusal(Message* why);
  uint64_t grown() const { return grown_.load(std::memory_order_relaxed); }

  // Releases the memory of a pool that nobody uses any more.
  void release();

  // In the child of a fork, by the only thread there is.
  void note_fork_child() { lock_ = PTHREAD_MUTEX_INITIALIZER; }
  // By BufferState; for tests.
  void count_states(size_t counted[3]) const;

 private:
  // When growing failed last, how and why.
  struct Refusal {
    uint64_t at = 0;  // 0: it did not
    int status = 0;
    char why[192] = {};
  };

  size_t next_step() const;
  int add_chunk_or_less(size_t wanted, Message* why);
  int add_chunk(size_t wanted, Message* why);
  int take_reserve(Message* reason);

  PoolMemory& memory_;
  ChunkTable& table_;
  ChunkSource source_;
  const PoolBuffers& buffers_;
  Shelves& shelves_;
  PoolSettings settings_;

  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  Chunk* first_chunk_ = nullptr;  // added to under the lock
  Refusal refusal_;               // under the lock
  std::atomic<uint64_t> grown_{0};
};

}  // namespace rdmalloc
