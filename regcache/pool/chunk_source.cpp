#include "regcache/pool/chunk_source.h"

#include <string.h>

#include "allocator/os/cache_line.h"
#include "allocator/os/memory.h"

namespace rdmalloc {

void ChunkSource::open(const PoolSettings& settings) {
  settings_ = settings;
  stride_ = static_cast<uint32_t>(os::align_up(settings.buffer_bytes, settings.alignment));
}

int ChunkSource::take(size_t wanted, size_t most, Chunk** out, Message* why) {
  Chunk* const chunk = table_.take();
  if (chunk == nullptr) {
    why->add("there are too many chunks of memory in pools: let them grow by more");
    return RDM_UNSUPPORTED;
  }
  int status = take_memory(wanted, most, chunk, why);
  if (status == RDM_OK) status = find_keys(chunk, why);
  if (status == RDM_OK) {
    *out = chunk;
  } else {
    give_back(chunk);
  }
  return status;
}

void ChunkSource::give_back(Chunk* chunk) {
  if (chunk->all_keys != &kNoKey) memory_.release(const_cast<rdm_mr*>(chunk->all_keys));
  memory_.release(static_cast<void*>(chunk->states));
  memory_.release(reinterpret_cast<void*>(chunk->base));
  table_.give(chunk);
}

// The bytes added by rounding become buffers, too, unless that exceeds the limit. On failure the
// caller gives the chunk back.
int ChunkSource::take_memory(size_t wanted, size_t most, Chunk* chunk, Message* why) {
  const size_t bytes = os::align_up(wanted * stride_, Chunk::kUnit);
  const size_t count = bytes / stride_ < most ? bytes / stride_ : most;
  const size_t alignment = settings_.alignment > Chunk::kUnit ? settings_.alignment : Chunk::kUnit;
  void* const memory = memory_.allocate(bytes, alignment, settings_.flags);
  chunk->base = reinterpret_cast<uintptr_t>(memory);
  chunk->set_stride(stride_);
  chunk->count = static_cast<uint32_t>(count);
  chunk->bytes = bytes;
  chunk->all_keys = &kNoKey;
  chunk->state_shift = Chunk::state_shift_for(stride_);
  const size_t state_bytes = count << chunk->state_shift;
  void* const states = memory_.allocate(state_bytes, os::kCacheLine, 0);
  chunk->states = static_cast<std::atomic<uint8_t>*>(states);
  const Region* const region = memory == nullptr ? nullptr : memory_.region_of(memory);
  if (region == nullptr || states == nullptr) {
    why->add((settings_.flags & RDM_EXPOSED) != 0
                 ? "the budget for pinned memory has no room for more exposed memory"
                 : "no memory: the memory cap, or the machine's memory, is reached");
    return RDM_OUT_OF_BUDGET;
  }
  memset(states, static_cast<int>(BufferState::kFree), state_bytes);
  // Pages not populated yet go to the calling thread's node.
  if (has_several_nodes_) (void)os::populate(memory, bytes);
  chunk->node = has_several_nodes_ ? region->node : 0;
  return RDM_OK;
}

int ChunkSource::find_keys(Chunk* chunk, Message* why) {
  chunk->usable = chunk->count;
  chunk->key_mask = 0;
  if (settings_.domain == nullptr) return RDM_OK;
  rdm_mr whole{};
  const size_t length = size_t{chunk->count - 1} * stride_ + settings_.buffer_bytes;
  const int status = memory_.lookup(settings_.domain, chunk->address_of(0), length, &whole);
  if (status != RDM_OK) return find_keys_apart(chunk, why);
  auto* const key = static_cast<rdm_mr*>(memory_.allocate(sizeof whole, 0, 0));
  if (key == nullptr) {
    why->add("no memory for the pool's books");
    return RDM_SYSTEM;
  }
  *key = whole;
  chunk->all_keys = key;
  return RDM_OK;
}

// For a region that the device's limits split into several memory regions, or of which only some
// could be registered. If neither end of the chunk is registered, does not ask again for each
// buffer.
int ChunkSource::find_keys_apart(Chunk* chunk, Message* why) {
  rdm_mr found{};
  const char* const last = chunk->address_of(chunk->count - 1) + settings_.buffer_bytes - 1;
  const int first_status = memory_.lookup(settings_.domain, chunk->address_of(0), 1, &found);
  if (first_status != RDM_OK && memory_.lookup(settings_.domain, last, 1, &found) != RDM_OK) {
    say_no_key(*chunk, first_status, why);
    const bool is_pinned = memory_.region_of(last)->kind == RegionKind::kPinned;
    if (first_status == RDM_INVALID) return RDM_INVALID;
    return is_pinned ? RDM_NOT_REGISTERED : RDM_OUT_OF_BUDGET;
  }
  auto* const keys = static_cast<rdm_mr*>(memory_.allocate(chunk->count * sizeof(rdm_mr), 0, 0));
  if (keys == nullptr) {
    why->add("no memory for the pool's books");
    return RDM_SYSTEM;
  }
  chunk->all_keys = keys;
  chunk->key_mask = UINT32_MAX;
  for (uint32_t i = 0; i < chunk->count; ++i) {
    keys[i] = {};
    if (memory_.lookup(settings_.domain, chunk->address_of(i), settings_.buffer_bytes, &keys[i]) ==
        RDM_OK) {
      continue;
    }
    chunk->state_of(i).store(static_cast<uint8_t>(BufferState::kLeftOut),
                             std::memory_order_relaxed);
    --chunk->usable;
  }
  if (chunk->usable != 0) return RDM_OK;
  why->add(
      "every buffer would straddle two of the device's memory regions: the buffers are too long "
      "for it");
  return RDM_UNSUPPORTED;
}

void ChunkSource::say_no_key(const Chunk& chunk, int status, Message* why) const {
  if (status == RDM_INVALID) {
    why->add("the domain is closed");
  } else if (memory_.region_of(chunk.address_of(0))->kind != RegionKind::kPinned) {
    why->add("the memory is beyond the budget for pinned memory, and so in no domain");
  } else {
    const char* const told = memory_.why(settings_.domain);
    why->add("the memory could not be registered").add(*told == '\0' ? "" : ": ").add(told);
  }
}

}  // namespace rdmalloc
