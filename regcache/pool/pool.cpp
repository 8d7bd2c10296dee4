#include "regcache/pool/pool.h"

#include "allocator/last_error.h"
#include "allocator/os/thread.h"
#include "regcache/pool/pool_memory.h"
#include "regcache/pool/pool_stocks.h"
#include "regcache/pool/pools.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {
namespace {

int fail_with(int status, const Message& why) {
  why.copy_to(new_last_error(), kLongestError);
  return status;
}

}  // namespace

bool Pool::find(Stock* stock, PoolItem* out) {
  const int node = pools_->node_here();
  for (;;) {
    if (refill(stock, node, out)) return true;
    // If the pool cannot grow on this node, a buffer on another node is just as good.
    if (!may_grow_apart(node) && take_anywhere(out)) return true;
    if (grow(node) != RDM_OK) break;
    if (refill(stock, node, out) || take_anywhere(out)) return true;
  }
  return take_anywhere(out) || steal(stock, out);
}

int Pool::refuse_unless_open() const {
  switch (phase_.load(std::memory_order_acquire)) {
    case Phase::kOpen:
      return RDM_OK;
    case Phase::kForked:
      return fail(RDM_NOT_REGISTERED,
                  "this pool is of the parent process, which owns its registrations: create one in "
                  "the child");
    default:
      return fail(RDM_INVALID, "the pool is closed");
  }
}

int Pool::get_slowly(Pool* pool, rdm_buffer* out) {
  if (pool == nullptr || out == nullptr) {
    return fail(RDM_INVALID, "the pool, or the place for the buffer, is null");
  }
  return pool->obtain(out);
}

int Pool::obtain(rdm_buffer* out) {
  if (const int status = refuse_unless_open(); status != RDM_OK) return status;
  const os::NoCancel no_cancel;
  Stock* const stock = pools_->stock_of(*this, 2 * batch_);
  for (PoolItem item; find(stock, &item);) {
    if (hand_out(item, out) || hand_out_checked(item, out)) return RDM_OK;
  }
  return refuse_get();
}

int Pool::get_beside_holes(const PoolItem& item, rdm_buffer* out) {
  return hand_out_checked(item, out) ? RDM_OK : obtain(out);
}

// For a chunk with holes. False: the program destroyed the buffer, which is the pool's no more.
bool Pool::hand_out_checked(const PoolItem& item, rdm_buffer* out) {
  const Chunk& chunk = chunks_[item.chunk()];
  char* const address = chunk.address_of(item.index());
  memory_->reopen(address, length_);
  if (memory_->marks().is_retired(reinterpret_cast<uintptr_t>(address), length_)) {
    chunk.state_of(item.index())
        .store(static_cast<uint8_t>(BufferState::kLeftOut), std::memory_order_relaxed);
    held_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  fill(item, chunk.key_of(item.index()), out);
  return true;
}

int Pool::refuse_get() {
  failed_.fetch_add(1, std::memory_order_relaxed);
  Message why;
  why.add("all ").add_number(held_.load(std::memory_order_relaxed)).add(" buffers are out, and ");
  PosixLock hold(&growth_, LockRank::kOuter);
  if (held_.load(std::memory_order_relaxed) >= settings_.most) {
    why.add("the pool may have no more");
  } else {
    why.add("no more could be had: ").add(refused_why_);
  }
  return fail_with(RDM_OUT_OF_BUDGET, why);
}

int Pool::refuse_put(Pool* pool, const void* address) {
  if (pool == nullptr) return fail(RDM_INVALID, "the pool is null");
  const Phase phase = pool->phase_.load(std::memory_order_acquire);
  if (phase != Phase::kOpen && phase != Phase::kForked) return pool->refuse_unless_open();
  const Chunk* chunk = pool->chunk_of(address);
  if (chunk == nullptr) return fail(RDM_INVALID, "the address is not of this pool");
  uint32_t index = 0;
  if (!chunk->index_of(address, &index)) {
    return fail(
        RDM_INVALID,
        "no buffer starts at this address: put the address that rdm_pool_get gave, not one inside");
  }
  return fail(RDM_INVALID, "the buffer is not in use: it was put back already");
}

// For a buffer that is now free and did not fit in the thread's stock.
int Pool::give_back(const PoolItem& item) {
  if (phase_.load(std::memory_order_acquire) != Phase::kOpen) return RDM_OK;
  const os::NoCancel no_cancel;
  Stock* const stock = pools_->stock_of(*this, 2 * batch_);
  StockUse use(*this, stock);
  if (stock == nullptr) {
    shelve(&item, 1);
    return RDM_OK;
  }
  if (stock->push(item)) return RDM_OK;
  PoolItem oldest[Stock::kMost];
  shelve(oldest, stock->remove_oldest(oldest, batch_));
  (void)stock->push(item);
  return RDM_OK;
}

int Pool::key(Pool* pool, const void* address, rdm_mr* out) {
  if (pool == nullptr || out == nullptr) {
    return fail(RDM_INVALID, "the pool, or the place for the key, is null");
  }
  if (const int status = pool->refuse_unless_open(); status != RDM_OK) return status;
  const Chunk* chunk = pool->chunk_of(address);
  if (chunk == nullptr) return fail(RDM_INVALID, "the address is not of this pool");
  const size_t offset = reinterpret_cast<uintptr_t>(address) - chunk->base;
  const auto index = static_cast<uint32_t>(offset / chunk->stride);
  if (index >= chunk->count || offset % chunk->stride >= pool->length_) {
    return fail(RDM_INVALID, "the address lies in no buffer of this pool");
  }
  if (chunk->keys.load(std::memory_order_relaxed) == nullptr) {
    const auto buffer = reinterpret_cast<uintptr_t>(chunk->address_of(index));
    if (pool->memory_->marks().is_retired(buffer, pool->length_)) {
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

int Pool::counts(rdm_pool_counts* out) {
  if (phase_.load(std::memory_order_acquire) == Phase::kFree) return refuse_unless_open();
  const os::NoCancel no_cancel;
  PosixLock members(&members_, LockRank::kMembers);
  PosixLock shelves(&shelf_lock_);
  const size_t held = held_.load(std::memory_order_relaxed);
  const size_t free = free_now();
  *out = {};
  out->held = held;
  out->free = free < held ? free : held;
  out->out = held - out->free;
  out->grown = grown_.load(std::memory_order_relaxed);
  out->failed = failed_.load(std::memory_order_relaxed);
  return RDM_OK;
}

void Pool::reserve_for(Pools& pools) {
  pools_ = &pools;
  memory_ = &pools.memory();
  phase_.store(Phase::kStarting, std::memory_order_release);
}

int Pool::close() {
  const os::NoCancel no_cancel;
  Stock* stocks = nullptr;
  const bool is_own = phase_.load(std::memory_order_acquire) == Phase::kOpen;
  if (is_own) {
    PosixLock members(&members_, LockRank::kMembers);
    size_t out = 0;
    {
      const Revoked revoked(*this, nullptr);
      PosixLock shelves(&shelf_lock_);
      out = held_.load(std::memory_order_relaxed) - free_now();
    }
    if (out != 0) {
      Message why;
      why.add_number(out).add(out == 1 ? " buffer of the pool is" : " buffers of the pool are");
      return fail_with(RDM_BUSY, why.add(" out: put back all that was got"));
    }
    stocks = disband();
  }
  while (stocks != nullptr) {
    Stock* const stock = stocks;
    stocks = stock->next;
    pools_->give_stock(stock);
  }
  release_memory();
  // What a pool inherited from the parent holds belongs to the parent.
  if (is_own && settings_.domain != nullptr) memory_->let_go(settings_.domain);
  phase_.store(Phase::kFree, std::memory_order_release);
  return RDM_OK;
}

// Threads that no longer exist may have held locks. What these locks guard is not used again,
// except the list of chunks, which is consistent at every moment.
void Pool::note_fork_child() {
  growth_ = PTHREAD_MUTEX_INITIALIZER;
  members_ = PTHREAD_MUTEX_INITIALIZER;
  shelf_lock_ = PTHREAD_MUTEX_INITIALIZER;
  (void)disband();
  switch (phase_.load(std::memory_order_relaxed)) {
    case Phase::kOpen:
      phase_.store(Phase::kForked, std::memory_order_release);
      break;
    case Phase::kStarting:
      phase_.store(Phase::kFree, std::memory_order_release);
      break;
    default:
      break;
  }
}

bool Pool::validate() {
  PosixLock members(&members_, LockRank::kMembers);
  PosixLock shelves(&shelf_lock_);
  size_t counted[3] = {};
  for (const Chunk* chunk = first_chunk_; chunk != nullptr; chunk = chunk->next) {
    for (uint32_t i = 0; i < chunk->count; ++i) ++counted[chunk->state_of(i)];
  }
  const auto is_free = [&](const PoolItem& item) {
    const Chunk& chunk = chunks_[item.chunk()];
    if (chunk.pool.load(std::memory_order_relaxed) != this || item.index() >= chunk.count) {
      return false;
    }
    return chunk.state_of(item.index()) == static_cast<uint8_t>(BufferState::kFree);
  };
  for (const Shelf& shelf : shelves_) {
    if (shelf.count > shelf.room || shelf.held > shelf.room) return false;
    for (size_t i = 0; i < shelf.count; ++i) {
      if (!is_free(shelf.items[i])) return false;
    }
  }
  for (const Stock* stock = first_stock_; stock != nullptr; stock = stock->next) {
    for (uint32_t i = 0; i < stock->count; ++i) {
      if (!is_free(stock->items[i])) return false;
    }
  }
  const size_t free = counted[static_cast<size_t>(BufferState::kFree)];
  const size_t out = counted[static_cast<size_t>(BufferState::kOut)];
  return free == free_now() && free + out == held_;
}

}  // namespace rdmalloc
