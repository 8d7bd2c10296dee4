// Where a pool's chunks come from: memory from the allocator, keys from the domain. Under the
// growth lock of the pool, or while it starts or closes. Never inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/message.h"
#include "regcache/pool/chunk_table.h"
#include "regcache/pool/pool_memory.h"
#include "regcache/pool/pool_settings.h"

namespace rdmalloc {

class ChunkSource {
 public:
  ChunkSource(ChunkTable& table, PoolMemory& memory, bool has_several_nodes)
      : table_(table), memory_(memory), has_several_nodes_(has_several_nodes) {}
  ChunkSource(const ChunkSource&) = delete;
  ChunkSource& operator=(const ChunkSource&) = delete;

  void open(const PoolSettings& settings);
  uint32_t stride() const { return stride_; }  // bytes from one buffer to the next

  // A chunk of this many buffers, or of up to `most` where rounding makes room for more. Fewer of
  // them are usable if some would straddle two of the device's memory regions.
  int take(size_t wanted, size_t most, Chunk** out, Message* why);
  void give_back(Chunk* chunk);

 private:
  int take_memory(size_t wanted, size_t most, Chunk* chunk, Message* why);
  int find_keys(Chunk* chunk, Message* why);
  int find_keys_apart(Chunk* chunk, Message* why);
  void say_no_key(const Chunk& chunk, int status, Message* why) const;

  ChunkTable& table_;
  PoolMemory& memory_;
  const bool has_several_nodes_;
  PoolSettings settings_;
  uint32_t stride_ = 0;
};

}  // namespace rdmalloc
