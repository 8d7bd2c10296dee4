// The chunks of all pools by number and by address. A value: each pool has a copy, so that a hit
// follows no further pointer. Read without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/pool/chunk.h"

namespace rdmalloc {

struct ChunkMap {
  uintptr_t window_base = 0;
  size_t window_size = 0;
  std::atomic<uint32_t>* units = nullptr;  // of the window: the chunk's number, 0 for none
  Chunk* chunks = nullptr;                 // by number; the first is unused

  // The chunk there if it is of that pool, or null.
  const Chunk* find(const void* address, const PoolBuffers* owner) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - window_base;
    if (offset >= window_size) return nullptr;
    const uint32_t number = units[offset >> Chunk::kUnitShift].load(std::memory_order_acquire);
    const Chunk& chunk = chunks[number];
    return chunk.owner.load(std::memory_order_relaxed) == owner ? &chunk : nullptr;
  }
  const Chunk& of(const PoolItem& item) const { return chunks[item.chunk()]; }

  size_t unit_of(uintptr_t address) const { return (address - window_base) >> Chunk::kUnitShift; }
  uintptr_t end_of(size_t unit) const { return window_base + ((unit + 1) << Chunk::kUnitShift); }
};

}  // namespace rdmalloc
