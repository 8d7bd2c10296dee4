#include "regcache/pool/pool_buffers.h"

#include "allocator/last_error.h"
#include "regcache/pool/pool_memory.h"

namespace rdmalloc {

int PoolBuffers::refuse(const void* address) const {
  const Chunk* chunk = chunks_.find(address, this);
  if (chunk == nullptr) return fail(RDM_INVALID, "the address is not of this pool");
  uint32_t index = 0;
  if (!chunk->index_of(address, &index)) {
    return fail(
        RDM_INVALID,
        "no buffer starts at this address: put the address that rdm_pool_get gave, not one inside");
  }
  return fail(RDM_INVALID, "the buffer is not in use: it was put back already");
}

bool PoolBuffers::hand_out_checked(const PoolItem& item, rdm_buffer* out) const {
  const Chunk& chunk = chunks_.of(item);
  char* const address = chunk.address_of(item.index());
  memory_.reopen(address, length_);
  if (memory_.marks().is_retired(reinterpret_cast<uintptr_t>(address), length_)) {
    chunk.state_of(item.index())
        .store(static_cast<uint8_t>(BufferState::kLeftOut), std::memory_order_relaxed);
    return false;
  }
  fill(item, chunk.key_of(item.index()), out);
  return true;
}

int PoolBuffers::key(const void* address, rdm_mr* out) const {
  const Chunk* chunk = chunks_.find(address, this);
  if (chunk == nullptr) return fail(RDM_INVALID, "the address is not of this pool");
  const size_t offset = reinterpret_cast<uintptr_t>(address) - chunk->base;
  const auto index = static_cast<uint32_t>(offset / chunk->stride);
  if (index >= chunk->count || offset % chunk->stride >= length_) {
    return fail(RDM_INVALID, "the address lies in no buffer of this pool");
  }
  if (chunk->keys.load(std::memory_order_relaxed) == nullptr) {
    const auto buffer = reinterpret_cast<uintptr_t>(chunk->address_of(index));
    if (memory_.marks().is_retired(buffer, length_)) {
      return fail(RDM_NOT_OWNED,
                  "the program has unmapped some of this buffer, or mapped something else over it: "
                  "rdm_get takes what lies there now");
    }
  }
  if (chunk->all_keys == &kNoKey) {
    return fail(RDM_NOT_REGISTERED,
                "the pool was created without a domain: its buffers have no key");
  }
  if (chunk->state_of(index) == static_cast<uint8_t>(BufferState::kLeftOut)) {
    return fail(RDM_INVALID,
                "the address lies in no buffer of this pool: one there would straddle two of the "
                "device's memory regions");
  }
  *out = chunk->key_of(index);
  return RDM_OK;
}

bool PoolBuffers::is_free(const PoolItem& item) const {
  const Chunk& chunk = chunks_.of(item);
  if (chunk.owner.load(std::memory_order_relaxed) != this || item.index() >= chunk.count) {
    return false;
  }
  return chunk.state_of(item.index()) == static_cast<uint8_t>(BufferState::kFree);
}

}  // namespace rdmalloc
