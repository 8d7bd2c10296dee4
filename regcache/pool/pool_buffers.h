// A pool's buffers by address: their states and keys. Found without a lock, by any thread, never
// inside malloc. A chunk knows whose it is by the address of this.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/pool.h"
#include "regcache/pool/chunk_map.h"

namespace rdmalloc {

class PoolMemory;

class PoolBuffers {
 public:
  PoolBuffers(const ChunkMap& chunks, PoolMemory& memory) : chunks_(chunks), memory_(memory) {}
  PoolBuffers(const PoolBuffers&) = delete;
  PoolBuffers& operator=(const PoolBuffers&) = delete;

  // `length`: bytes of a buffer, as asked for.
  void open(size_t length) { length_ = length; }

  // Makes the buffer free. False: no buffer of this pool starts there, or it is not in use.
  bool claim(const void* address, PoolItem* out) const;
  // The sentence for a claim() that failed.
  int refuse(const void* address) const;

  // False, and nothing happened: the chunk has holes.
  bool hand_out(const PoolItem& item, rdm_buffer* out) const;
  // For a chunk with holes. False: the program destroyed the buffer, which is the pool's no more.
  bool hand_out_checked(const PoolItem& item, rdm_buffer* out) const;

  int key(const void* address, rdm_mr* out) const;

  const Chunk& chunk_of(const PoolItem& item) const { return chunks_.of(item); }
  // For tests.
  bool is_free(const PoolItem& item) const;

 private:
  void fill(const PoolItem& item, const rdm_mr& key, rdm_buffer* out) const;

  size_t length_ = 0;
  const ChunkMap chunks_;
  PoolMemory& memory_;
};

// The atomic exchange lets only one of two threads succeed that put the same buffer at once.
inline bool PoolBuffers::claim(const void* address, PoolItem* out) const {
  const Chunk* chunk = chunks_.find(address, this);
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

inline bool PoolBuffers::hand_out(const PoolItem& item, rdm_buffer* out) const {
  const Chunk& chunk = chunks_.of(item);
  const rdm_mr* const keys = chunk.keys.load(std::memory_order_relaxed);
  if (keys == nullptr) [[unlikely]]
    return false;
  fill(item, keys[item.index() & chunk.key_mask], out);
  return true;
}

inline void PoolBuffers::fill(const PoolItem& item, const rdm_mr& key, rdm_buffer* out) const {
  const Chunk& chunk = chunks_.of(item);
  const uint32_t index = item.index();
  chunk.state_of(index).store(static_cast<uint8_t>(BufferState::kOut), std::memory_order_relaxed);
  out->address = chunk.address_of(index);
  out->length = length_;
  out->lkey = key.lkey;
  out->rkey = key.rkey;
  out->handle = key.handle;
}

}  // namespace rdmalloc
