// The keys of a chunk's buffers, looked up when the chunk is taken.
#include "regcache/pool/pool.h"
#include "regcache/pool/pool_memory.h"

namespace rdmalloc {

int Pool::find_keys(Chunk* chunk, Message* why) {
  chunk->usable = chunk->count;
  chunk->key_mask = 0;
  if (settings_.domain == nullptr) return RDM_OK;
  rdm_mr whole{};
  const size_t length = size_t{chunk->count - 1} * stride_ + length_;
  const int status = memory_->lookup(settings_.domain, chunk->address_of(0), length, &whole);
  if (status != RDM_OK) return find_keys_apart(chunk, why);
  auto* const key = static_cast<rdm_mr*>(memory_->allocate(sizeof whole, 0, 0));
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
int Pool::find_keys_apart(Chunk* chunk, Message* why) {
  rdm_mr found{};
  const char* const last = chunk->address_of(chunk->count - 1) + length_ - 1;
  const int first_status = memory_->lookup(settings_.domain, chunk->address_of(0), 1, &found);
  if (first_status != RDM_OK && memory_->lookup(settings_.domain, last, 1, &found) != RDM_OK) {
    say_no_key(*chunk, first_status, why);
    const bool is_pinned = memory_->region_of(last)->kind == RegionKind::kPinned;
    if (first_status == RDM_INVALID) return RDM_INVALID;
    return is_pinned ? RDM_NOT_REGISTERED : RDM_OUT_OF_BUDGET;
  }
  auto* const keys = static_cast<rdm_mr*>(memory_->allocate(chunk->count * sizeof(rdm_mr), 0, 0));
  if (keys == nullptr) {
    why->add("no memory for the pool's books");
    return RDM_SYSTEM;
  }
  chunk->all_keys = keys;
  chunk->key_mask = UINT32_MAX;
  for (uint32_t i = 0; i < chunk->count; ++i) {
    keys[i] = {};
    if (memory_->lookup(settings_.domain, chunk->address_of(i), length_, &keys[i]) == RDM_OK) {
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

void Pool::say_no_key(const Chunk& chunk, int status, Message* why) const {
  if (status == RDM_INVALID) {
    why->add("the domain is closed");
  } else if (memory_->region_of(chunk.address_of(0))->kind != RegionKind::kPinned) {
    why->add("the memory is beyond the budget for pinned memory, and so in no domain");
  } else {
    const char* const told = memory_->why(settings_.domain);
    why->add("the memory could not be registered").add(*told == '\0' ? "" : ": ").add(told);
  }
}

}  // namespace rdmalloc
