#include "regcache/pool/pool.h"

#include <time.h>

#include "allocator/os/process_barrier.h"
#include "allocator/os/thread.h"
#include "regcache/last_error.h"
#include "regcache/pool/pools.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {
namespace {

int fail_with(int status, const Message& why) {
  why.copy_to(last_error(), kLongestError);
  return status;
}

}  // namespace

// The owner's use of its stock together with the shelves: what moves between them moves under the
// shelf lock, so that who looks through both misses nothing. The lock comes first: who reaches into
// stocks waits for their owners without it.
class Pool::StockUse {
 public:
  // `stock` may be null.
  StockUse(Pool& pool, Stock* stock) : pool_(pool), stock_(stock) {
    pthread_mutex_lock(&pool_.shelf_lock_);
    if (stock_ == nullptr || stock_->enter(pool_.fenced_)) return;
    pthread_mutex_unlock(&pool_.shelf_lock_);
    pthread_mutex_lock(&pool_.members_);
    pthread_mutex_lock(&pool_.shelf_lock_);
    is_locked_ = true;
  }
  ~StockUse() {
    if (stock_ != nullptr && !is_locked_) stock_->leave();
    pthread_mutex_unlock(&pool_.shelf_lock_);
    if (is_locked_) pthread_mutex_unlock(&pool_.members_);
  }
  StockUse(const StockUse&) = delete;
  StockUse& operator=(const StockUse&) = delete;

 private:
  Pool& pool_;
  Stock* const stock_;
  bool is_locked_ = false;
};

// While one lives no thread but this one is, or comes, into a stock of the pool. Under members_,
// and not under the shelf lock.
class Pool::Revoked {
 public:
  // All but `mine`.
  Revoked(Pool& pool, const Stock* mine) : pool_(pool), mine_(mine) {
    for (Stock* stock = pool_.first_stock_; stock != nullptr; stock = stock->next) {
      if (stock != mine_) stock->revoked.store(1, std::memory_order_seq_cst);
    }
    if (!pool_.fenced_) os::process_barrier();
    for (Stock* stock = pool_.first_stock_; stock != nullptr; stock = stock->next) {
      if (stock != mine_) wait_for(*stock);
    }
  }
  ~Revoked() {
    for (Stock* stock = pool_.first_stock_; stock != nullptr; stock = stock->next) {
      if (stock != mine_) stock->revoked.store(0, std::memory_order_release);
    }
  }
  Revoked(const Revoked&) = delete;
  Revoked& operator=(const Revoked&) = delete;

 private:
  // An owner is in for a few instructions, unless it lost its processor there.
  static void wait_for(const Stock& stock) {
    constexpr int kSpins = 1000;
    constexpr timespec kPause{0, 20000};
    for (int i = 0; stock.busy.load(std::memory_order_seq_cst) != 0; ++i) {
      if (i >= kSpins) nanosleep(&kPause, nullptr);
    }
  }

  Pool& pool_;
  const Stock* const mine_;
};

void Pool::join(Stock* stock, std::atomic<Stock*>* place) {
  PosixLock hold(&members_);
  stock->place = place;
  stock->next = first_stock_;
  if (first_stock_ != nullptr) first_stock_->previous = stock;
  first_stock_ = stock;
  place->store(stock, std::memory_order_relaxed);
}

Stock* Pool::leave(std::atomic<Stock*>* place) {
  PosixLock members(&members_);
  Stock* const stock = place->load(std::memory_order_relaxed);
  if (stock == nullptr) return nullptr;
  place->store(nullptr, std::memory_order_relaxed);
  if (stock->previous != nullptr) stock->previous->next = stock->next;
  if (stock->next != nullptr) stock->next->previous = stock->previous;
  if (first_stock_ == stock) first_stock_ = stock->next;
  PosixLock shelves(&shelf_lock_);
  shelve(stock->items, stock->count.load(std::memory_order_relaxed));
  return stock;
}

// Under the shelf lock. There is room: see make_room().
void Pool::shelve(const PoolItem* items, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Shelf& shelf = shelves_[chunks_[items[i].chunk()].node];
    shelf.items[shelf.count++] = items[i];
  }
}

// Under the shelf lock.
bool Pool::take_from_shelves(PoolItem* out) {
  for (Shelf& shelf : shelves_) {
    if (shelf.count == 0) continue;
    *out = shelf.items[--shelf.count];
    return true;
  }
  return false;
}

bool Pool::take_anywhere(PoolItem* out) {
  PosixLock hold(&shelf_lock_);
  return take_from_shelves(out);
}

// One for the caller, and as many as make a batch for its stock.
bool Pool::refill(Stock* stock, int node, PoolItem* out) {
  StockUse use(*this, stock);
  if (stock != nullptr && stock->pop(out)) return true;
  Shelf& shelf = shelves_[node];
  if (shelf.count == 0) return false;
  *out = shelf.items[--shelf.count];
  if (stock == nullptr) return true;
  for (uint32_t i = 1; i < batch_ && shelf.count != 0; ++i) {
    if (!stock->push(shelf.items[shelf.count - 1])) break;
    --shelf.count;
  }
  return true;
}

// From the stock that has most: one for the caller, half of the rest for its stock. No buffer that
// is free is missed, but one that a thread is just putting back.
bool Pool::steal(Stock* mine, PoolItem* out) {
  PosixLock hold(&members_);
  const Revoked revoked(*this, mine);
  PosixLock shelves(&shelf_lock_);
  if (take_from_shelves(out)) return true;
  Stock* richest = nullptr;
  uint32_t most = 0;
  for (Stock* stock = first_stock_; stock != nullptr; stock = stock->next) {
    const uint32_t held = stock->count.load(std::memory_order_relaxed);
    if (held <= most) continue;
    most = held;
    richest = stock;
  }
  if (richest == nullptr) return false;
  PoolItem taken[Stock::kMost];
  const uint32_t count = richest->remove_oldest(taken, mine == nullptr ? 1 : (most + 1) / 2);
  *out = taken[0];
  for (uint32_t i = 1; i < count; ++i) {
    if (!mine->push(taken[i])) shelve(&taken[i], 1);
  }
  return true;
}

bool Pool::find(Stock* stock, PoolItem* out) {
  const int node = pools_->node_here();
  for (;;) {
    if (refill(stock, node, out)) return true;
    // Where no memory of this node comes, what lies elsewhere is as good.
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
  PoolItem item;
  if (!find(stock, &item)) return refuse_get();
  hand_out(item, out);
  return RDM_OK;
}

int Pool::refuse_get() {
  failed_.fetch_add(1, std::memory_order_relaxed);
  Message why;
  why.add("all ").add_number(held_.load(std::memory_order_relaxed)).add(" buffers are out, and ");
  PosixLock hold(&growth_);
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
    return fail(RDM_INVALID,
                "no buffer starts at this address: put what was got, not a part of it");
  }
  return fail(RDM_INVALID, "the buffer is not out: it was put back already");
}

// A buffer that is free now, and that the thread's stock had no room for.
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
  const size_t index = offset / chunk->stride;
  if (index >= chunk->count || offset % chunk->stride >= pool->length_) {
    return fail(RDM_INVALID, "the address lies in no buffer of this pool");
  }
  if (chunk->keys == nullptr) {
    return fail(RDM_NOT_REGISTERED,
                "the pool was created without a domain: its buffers have no key");
  }
  *out = chunk->key_of(static_cast<uint32_t>(index));
  return RDM_OK;
}

// Under members_ and the shelf lock. Exact while the stocks are revoked.
size_t Pool::free_now() const {
  size_t sum = 0;
  for (const Shelf& shelf : shelves_) sum += shelf.count;
  for (const Stock* stock = first_stock_; stock != nullptr; stock = stock->next) {
    sum += stock->count.load(std::memory_order_relaxed);
  }
  return sum;
}

int Pool::counts(rdm_pool_counts* out) {
  if (phase_.load(std::memory_order_acquire) == Phase::kFree) return refuse_unless_open();
  const os::NoCancel no_cancel;
  PosixLock members(&members_);
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

// Under members_: takes the stocks from their threads, and returns them linked.
Stock* Pool::disband() {
  Stock* const all = first_stock_;
  for (Stock* stock = all; stock != nullptr; stock = stock->next) {
    stock->place->store(nullptr, std::memory_order_relaxed);
  }
  first_stock_ = nullptr;
  return all;
}

int Pool::close() {
  const os::NoCancel no_cancel;
  Stock* stocks = nullptr;
  if (phase_.load(std::memory_order_acquire) == Phase::kOpen) {
    PosixLock members(&members_);
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
  phase_.store(Phase::kFree, std::memory_order_release);
  return RDM_OK;
}

// Locks may have been held by threads that are not here any more; what they guard is not used
// again, but for the list of chunks, which is whole at any moment.
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
  PosixLock members(&members_);
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
