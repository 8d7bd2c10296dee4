// The records of all pools' chunks, and which units of the window they occupy. Learns of holes that
// the program makes in them.
//
// take() and give() take the lock of Pools, set_up() is called under it. publish() and withdraw()
// run under the growth lock of the chunk's pool. A hole may be reported by any thread, also inside
// malloc, and takes no lock. Constant-initialised; never destroyed.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/region_observer.h"
#include "regcache/pool/chunk_map.h"

namespace rdmalloc {

class PoolMemory;

class ChunkTable final : private RegionObserver {
 public:
  static constexpr size_t kMost = size_t{1} << 16;

  constexpr ChunkTable(PoolMemory& memory, pthread_mutex_t& lock)
      : memory_(&memory), lock_(&lock) {}
  ~ChunkTable() = default;
  ChunkTable(const ChunkTable&) = delete;
  ChunkTable& operator=(const ChunkTable&) = delete;

  // False: there is no window, or no memory. May be tried again.
  bool set_up();
  // Does not change once it is set up.
  const ChunkMap& map() const { return map_; }

  // Null: the maximum number exists.
  Chunk* take();
  void give(Chunk* chunk);

  // From here on addresses lead to the chunk, and no longer do.
  void publish(const Chunk& chunk);
  void withdraw(const Chunk& chunk);

 private:
  void on_acquire(const Region&) noexcept override {}
  void on_hole(const Region& region) noexcept override;
  void on_fork_child() noexcept override {}
  void mark_holes(uintptr_t from, uintptr_t to);

  PoolMemory* const memory_;
  pthread_mutex_t* const lock_;
  ChunkMap map_;
  std::atomic<uint32_t> meeting_{0};  // of holes and new chunks
  Chunk* free_ = nullptr;
  size_t next_ = 1;  // records from here on were never used
};

}  // namespace rdmalloc
