#include "regcache/pool/free_buffers.h"

#include <time.h>

#include "allocator/os/process_barrier.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {

// The owner's use of its stock together with the shelves. Buffers move between them under the shelf
// lock, so that a thread that looks through both misses nothing. The lock is taken first: a thread
// that reaches into stocks waits for their owners without it.
class FreeBuffers::StockUse {
 public:
  // `stock` may be null.
  StockUse(FreeBuffers& free, Stock* stock) : free_(free), stock_(stock) {
    pthread_mutex_lock(free_.shelves_.lock());
    if (stock_ == nullptr || stock_->enter(free_.fenced_)) return;
    pthread_mutex_unlock(free_.shelves_.lock());
    pthread_mutex_lock(&free_.members_);
    pthread_mutex_lock(free_.shelves_.lock());
    is_locked_ = true;
  }
  ~StockUse() {
    if (stock_ != nullptr && !is_locked_) stock_->leave();
    pthread_mutex_unlock(free_.shelves_.lock());
    if (is_locked_) pthread_mutex_unlock(&free_.members_);
  }
  StockUse(const StockUse&) = delete;
  StockUse& operator=(const StockUse&) = delete;

 private:
  FreeBuffers& free_;
  Stock* const stock_;
  bool is_locked_ = false;
};

// While an object exists, and if it is complete, no thread but this one has access to a stock of
// the pool. Under members_, and not under the shelf lock.
class FreeBuffers::Revoked {
 public:
  // All but `mine`.
  Revoked(FreeBuffers& free, const Stock* mine) : free_(free), mine_(mine) {
    for (Stock* stock = free_.first_stock_; stock != nullptr; stock = stock->next) {
      if (stock != mine_) stock->revoked.store(1, std::memory_order_seq_cst);
    }
    is_complete_ = free_.fenced_ || os::process_barrier();
    for (Stock* stock = free_.first_stock_; stock != nullptr; stock = stock->next) {
      if (stock != mine_) wait_for(*stock);
    }
  }
  ~Revoked() {
    for (Stock* stock = free_.first_stock_; stock != nullptr; stock = stock->next) {
      if (stock != mine_) stock->revoked.store(0, std::memory_order_release);
    }
  }
  Revoked(const Revoked&) = delete;
  Revoked& operator=(const Revoked&) = delete;

  // False: an owner may be inside unseen, so only counts may be read.
  bool is_complete() const { return is_complete_; }

 private:
  // An owner stays inside for a few instructions, unless it is preempted there.
  static void wait_for(const Stock& stock) {
    constexpr int kSpins = 1000;
    constexpr timespec kPause{0, 20000};
    for (int i = 0; stock.busy.load(std::memory_order_seq_cst) != 0; ++i) {
      if (i >= kSpins) nanosleep(&kPause, nullptr);
    }
  }

  FreeBuffers& free_;
  const Stock* const mine_;
  bool is_complete_ = false;
};

void FreeBuffers::open(bool fenced, uint32_t batch) {
  fenced_ = fenced;
  batch_ = batch;
  first_stock_ = nullptr;
  shelves_.open();
}

void FreeBuffers::join(Stock* stock, std::atomic<Stock*>* place) {
  PosixLock hold(&members_, LockRank::kMembers);
  stock->place = place;
  stock->next = first_stock_;
  if (first_stock_ != nullptr) first_stock_->previous = stock;
  first_stock_ = stock;
  place->store(stock, std::memory_order_relaxed);
}

Stock* FreeBuffers::leave(std::atomic<Stock*>* place) {
  PosixLock members(&members_, LockRank::kMembers);
  Stock* const stock = place->load(std::memory_order_relaxed);
  if (stock == nullptr) return nullptr;
  place->store(nullptr, std::memory_order_relaxed);
  if (stock->previous != nullptr) stock->previous->next = stock->next;
  if (stock->next != nullptr) stock->next->previous = stock->previous;
  if (first_stock_ == stock) first_stock_ = stock->next;
  PosixLock shelves(shelves_.lock());
  shelves_.put(stock->items, stock->count.load(std::memory_order_relaxed));
  return stock;
}

bool FreeBuffers::take_anywhere(PoolItem* out) {
  PosixLock hold(shelves_.lock());
  return shelves_.take_any(out);
}

bool FreeBuffers::refill(Stock* stock, int node, PoolItem* out) {
  StockUse use(*this, stock);
  if (stock != nullptr && stock->pop(out)) return true;
  if (!shelves_.take(node, out)) return false;
  if (stock != nullptr) shelves_.move_to(stock, node, batch_ - 1);
  return true;
}

// Takes from the fullest stock: one buffer for the caller, half of the rest for its stock. Misses
// no free buffer, except one that a thread is just returning.
bool FreeBuffers::steal(Stock* mine, PoolItem* out) {
  PosixLock hold(&members_, LockRank::kMembers);
  const Revoked revoked(*this, mine);
  PosixLock shelves(shelves_.lock());
  if (shelves_.take_any(out)) return true;
  if (!revoked.is_complete()) return false;
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
    if (!mine->push(taken[i])) shelves_.put(&taken[i], 1);
  }
  return true;
}

void FreeBuffers::put(Stock* stock, const PoolItem& item) {
  StockUse use(*this, stock);
  if (stock == nullptr) return shelves_.put(&item, 1);
  if (stock->push(item)) return;
  PoolItem oldest[Stock::kMost];
  shelves_.put(oldest, stock->remove_oldest(oldest, batch_));
  (void)stock->push(item);
}

// Under members_ and the shelf lock. Exact while the stocks are revoked.
size_t FreeBuffers::free_now() const {
  size_t sum = shelves_.count();
  for (const Stock* stock = first_stock_; stock != nullptr; stock = stock->next) {
    sum += stock->count.load(std::memory_order_relaxed);
  }
  return sum;
}

void FreeBuffers::count(rdm_pool_counts* out) {
  PosixLock members(&members_, LockRank::kMembers);
  PosixLock shelves(shelves_.lock());
  const size_t held = shelves_.held();
  const size_t free = free_now();
  out->held = held;
  out->free = free < held ? free : held;
  out->out = held - out->free;
}

size_t FreeBuffers::disband_if_idle(Stock** stocks) {
  PosixLock members(&members_, LockRank::kMembers);
  size_t out = 0;
  {
    const Revoked revoked(*this, nullptr);
    PosixLock shelves(shelves_.lock());
    out = shelves_.held() - free_now();
  }
  if (out == 0) *stocks = disband();
  return out;
}

// Under members_. Takes the stocks away from their threads and returns them linked.
Stock* FreeBuffers::disband() {
  Stock* const all = first_stock_;
  for (Stock* stock = all; stock != nullptr; stock = stock->next) {
    stock->place->store(nullptr, std::memory_order_relaxed);
  }
  first_stock_ = nullptr;
  return all;
}

void FreeBuffers::note_fork_child() {
  members_ = PTHREAD_MUTEX_INITIALIZER;
  shelves_.note_fork_child();
  (void)disband();
}

bool FreeBuffers::validate(size_t free, size_t out) {
  PosixLock members(&members_, LockRank::kMembers);
  PosixLock shelves(shelves_.lock());
  for (const Stock* stock = first_stock_; stock != nullptr; stock = stock->next) {
    for (uint32_t i = 0; i < stock->count; ++i) {
      if (!buffers_.is_free(stock->items[i])) return false;
    }
  }
  return shelves_.validate() && free == free_now() && free + out == shelves_.held();
}

}  // namespace rdmalloc
