// How a pool gets its memory: chunks from the allocator, and their keys from the domain.
#include <string.h>

#include "allocator/os/clock.h"
#include "allocator/os/memory.h"
#include "regcache/pool/pool.h"
#include "regcache/pool/pool_memory.h"
#include "regcache/pool/pools.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {
namespace {

constexpr size_t kFirstStep = size_t{256} << 10;
constexpr size_t kLongestStep = size_t{64} << 20;
// If a pool has a limit, each thread may keep 1/kShare of it.
constexpr size_t kShare = 16;
constexpr size_t kCacheLine = 64;
constexpr size_t kBytesInBatch = size_t{512} << 10;
// After growing has failed, further attempts fail without a try for this long.
constexpr uint64_t kRetryNs = 100'000'000;

size_t least(size_t a, size_t b) { return a < b ? a : b; }
size_t most_of(size_t a, size_t b) { return a > b ? a : b; }

}  // namespace

size_t Pool::batch_for(const PoolSettings& settings) const {
  size_t batch = least(most_of(kBytesInBatch / stride_, 1), Stock::kMost / 2);
  if (settings.most != SIZE_MAX) batch = least(batch, most_of(settings.most / kShare, 1));
  return batch;
}

int Pool::create(const PoolSettings& settings, Message* why) {
  settings_ = settings;
  if (settings_.domain != nullptr && memory_->takes_exposed_only(settings_.domain)) {
    settings_.flags |= RDM_EXPOSED;
  }
  length_ = settings.buffer_bytes;
  stride_ = static_cast<uint32_t>(os::align_up(settings.buffer_bytes, settings.alignment));
  batch_ = static_cast<uint32_t>(batch_for(settings));
  fenced_ = pools_->is_fenced();
  window_base_ = pools_->window_base();
  window_size_ = pools_->window_size();
  units_ = pools_->units();
  chunks_ = pools_->chunks();
  // In a child of fork, this pool may contain leftovers of a parent's thread that was creating it.
  first_chunk_ = nullptr;
  first_stock_ = nullptr;
  held_ = 0;
  for (Shelf& shelf : shelves_) shelf = {};
  refused_at_ = 0;
  grown_ = 0;
  failed_ = 0;
  const int status = fill_reserve(why);
  if (status != RDM_OK) release_memory();
  phase_.store(status == RDM_OK ? Phase::kOpen : Phase::kFree, std::memory_order_release);
  return status;
}

size_t Pool::next_step() const {
  const size_t held = held_.load(std::memory_order_relaxed);
  size_t step = settings_.grow_by;
  if (step == 0) step = most_of(kFirstStep / stride_, held / 2);
  step = least(step, kLongestStep / stride_);
  return least(most_of(step, 1), settings_.most - held);
}

bool Pool::may_grow_apart(int node) {
  PosixLock hold(&shelf_lock_);
  return !shelves_[node].is_misplaced;
}

// Also RDM_OK if another thread was faster.
int Pool::grow(int node) {
  PosixLock hold(&growth_, LockRank::kOuter);
  {
    PosixLock shelves(&shelf_lock_);
    if (shelves_[node].count != 0) return RDM_OK;
  }
  if (held_.load(std::memory_order_relaxed) >= settings_.most) return RDM_OUT_OF_BUDGET;
  const uint64_t now = os::now_ns();
  if (refused_at_ != 0 && now - refused_at_ < kRetryNs) return refused_status_;
  Message why;
  const int status = add_chunk_or_less(next_step(), &why);
  refused_at_ = status == RDM_OK ? 0 : now;
  refused_status_ = status;
  why.copy_to(refused_why_, sizeof refused_why_);
  if (status == RDM_OK && first_chunk_->node != node) {
    PosixLock shelves(&shelf_lock_);
    shelves_[node].is_misplaced = true;
  }
  return status;
}

// If a budget has no room for this many, it may have room for fewer.
int Pool::add_chunk_or_less(size_t wanted, Message* why) {
  for (size_t count = wanted;; count /= 2) {
    const int status = add_chunk(count, why);
    if (status != RDM_OUT_OF_BUDGET || count <= 1) return status;
    why->clear();
  }
}

// Under growth_, or while the pool starts. Adds fewer buffers than requested if some would straddle
// two of the device's memory regions.
int Pool::add_chunk(size_t wanted, Message* why) {
  Chunk* const chunk = pools_->take_chunk();
  if (chunk == nullptr) {
    why->add("there are too many chunks of memory in pools: let them grow by more");
    return RDM_UNSUPPORTED;
  }
  int status = take_memory(wanted, chunk, why);
  if (status == RDM_OK) status = find_keys(chunk, why);
  if (status == RDM_OK && !make_room(chunk->node, chunk->usable)) {
    why->add("no memory for the pool's books");
    status = RDM_SYSTEM;
  }
  if (status == RDM_OK) {
    publish(chunk);
  } else {
    discard(chunk);
  }
  return status;
}

// The bytes added by rounding become buffers, too, unless that exceeds the limit. On failure the
// caller discards the chunk.
int Pool::take_memory(size_t wanted, Chunk* chunk, Message* why) {
  const size_t bytes = os::align_up(wanted * stride_, Chunk::kUnit);
  const size_t count = least(bytes / stride_, settings_.most - held_);
  const size_t alignment = most_of(settings_.alignment, Chunk::kUnit);
  void* const memory = memory_->allocate(bytes, alignment, settings_.flags);
  chunk->base = reinterpret_cast<uintptr_t>(memory);
  chunk->set_stride(stride_);
  chunk->count = static_cast<uint32_t>(count);
  chunk->bytes = bytes;
  chunk->all_keys = &kNoKey;
  chunk->state_shift = Chunk::state_shift_for(stride_);
  const size_t state_bytes = count << chunk->state_shift;
  void* const states = memory_->allocate(state_bytes, kCacheLine, 0);
  chunk->states = static_cast<std::atomic<uint8_t>*>(states);
  const Region* const region = memory == nullptr ? nullptr : memory_->region_of(memory);
  if (region == nullptr || states == nullptr) {
    why->add((settings_.flags & RDM_EXPOSED) != 0
                 ? "the budget for pinned memory has no room for more exposed memory"
                 : "no memory: the memory cap, or the machine's memory, is reached");
    return RDM_OUT_OF_BUDGET;
  }
  memset(states, static_cast<int>(BufferState::kFree), state_bytes);
  const bool has_nodes = pools_->has_several_nodes();
  // Pages not populated yet go to the calling thread's node.
  if (has_nodes) (void)os::populate(memory, bytes);
  chunk->node = has_nodes ? region->node : 0;
  return RDM_OK;
}

// Makes room on the shelf for all buffers of the node.
bool Pool::make_room(int node, size_t more) {
  Shelf& shelf = shelves_[node];
  if (shelf.held + more <= shelf.room) return true;
  const size_t room = most_of(shelf.held + more, shelf.room * 2);
  auto* const items = static_cast<PoolItem*>(memory_->allocate(room * sizeof(PoolItem), 0, 0));
  if (items == nullptr) return false;
  PoolItem* before = nullptr;
  {
    PosixLock hold(&shelf_lock_);
    if (shelf.count != 0) memcpy(items, shelf.items, shelf.count * sizeof *items);
    before = shelf.items;
    shelf.items = items;
    shelf.room = room;
  }
  memory_->release(before);
  return true;
}

void Pool::publish(Chunk* chunk) {
  chunk->keys.store(chunk->all_keys, std::memory_order_relaxed);
  chunk->pool.store(this, std::memory_order_relaxed);
  const size_t first = (chunk->base - window_base_) >> Chunk::kUnitShift;
  for (size_t i = 0; i < chunk->bytes >> Chunk::kUnitShift; ++i) {
    pools_->units()[first + i].store(chunk->number, std::memory_order_release);
  }
  pools_->note_published(*chunk);
  chunk->next = first_chunk_;
  first_chunk_ = chunk;
  Shelf& shelf = shelves_[chunk->node];
  shelf.held += chunk->usable;
  grown_.fetch_add(1, std::memory_order_relaxed);
  PosixLock hold(&shelf_lock_);
  held_.fetch_add(chunk->usable, std::memory_order_relaxed);
  // Backwards, so that they are handed out in address order.
  for (uint32_t i = chunk->count; i-- > 0;) {
    if (chunk->state_of(i) != static_cast<uint8_t>(BufferState::kFree)) continue;
    shelf.items[shelf.count++] = PoolItem(chunk->number, i);
  }
}

void Pool::withdraw(Chunk* chunk) {
  const size_t first = (chunk->base - window_base_) >> Chunk::kUnitShift;
  for (size_t i = 0; i < chunk->bytes >> Chunk::kUnitShift; ++i) {
    pools_->units()[first + i].store(0, std::memory_order_relaxed);
  }
  chunk->pool.store(nullptr, std::memory_order_relaxed);
  discard(chunk);
}

void Pool::discard(Chunk* chunk) {
  if (chunk->all_keys != &kNoKey) memory_->release(const_cast<rdm_mr*>(chunk->all_keys));
  memory_->release(static_cast<void*>(chunk->states));
  memory_->release(reinterpret_cast<void*>(chunk->base));
  pools_->give_chunk(chunk);
}

// Releases the memory of a pool that nobody uses any more. Unlinks it first, so that a child forked
// meanwhile finds the lists consistent.
void Pool::release_memory() {
  while (first_chunk_ != nullptr) {
    Chunk* const chunk = first_chunk_;
    first_chunk_ = chunk->next;
    withdraw(chunk);
  }
  for (Shelf& shelf : shelves_) {
    PoolItem* const items = shelf.items;
    shelf = {};
    memory_->release(items);
  }
  held_ = 0;
}

}  // namespace rdmalloc
