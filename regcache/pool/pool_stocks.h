// Access to stocks: by the owner, or by a thread that holds the pool's members_ and revoked the
// stock.
#pragma once

#include <time.h>

#include "allocator/os/process_barrier.h"
#include "regcache/pool/pool.h"

namespace rdmalloc {

// The owner's use of its stock together with the shelves. Buffers move between them under the shelf
// lock, so that a thread that looks through both misses nothing. The lock is taken first: a thread
// that reaches into stocks waits for their owners without it.
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

// While an object exists, and if it is complete, no thread but this one has access to a stock of
// the pool. Under members_, and not under the shelf lock.
class Pool::Revoked {
 public:
  // All but `mine`.
  Revoked(Pool& pool, const Stock* mine) : pool_(pool), mine_(mine) {
    for (Stock* stock = pool_.first_stock_; stock != nullptr; stock = stock->next) {
      if (stock != mine_) stock->revoked.store(1, std::memory_order_seq_cst);
    }
    is_complete_ = pool_.fenced_ || os::process_barrier();
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

  Pool& pool_;
  const Stock* const mine_;
  bool is_complete_ = false;
};

}  // namespace rdmalloc
