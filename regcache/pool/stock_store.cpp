#include "regcache/pool/stock_store.h"

#include "regcache/posix_lock.h"

namespace rdmalloc {

ThreadStocks* StockStore::stocks_here() {
  if (ThreadStocks::mine != nullptr) return ThreadStocks::mine;
  ThreadStocks* made = nullptr;
  {
    PosixLock hold(lock_);
    made = threads_.get();
  }
  if (made == nullptr) return nullptr;
  made->store = this;
  if (pthread_setspecific(key_, made) != 0) {
    PosixLock hold(lock_);
    threads_.put(made);
    return nullptr;
  }
  ThreadStocks::mine = made;
  return made;
}

Stock* StockStore::of_this_thread(Pool& pool) {
  ThreadStocks* const mine = stocks_here();
  if (mine == nullptr) return nullptr;
  std::atomic<Stock*>* const place = &mine->of[pool.number()];
  if (Stock* known = place->load(std::memory_order_relaxed); known != nullptr) return known;
  Stock* stock = nullptr;
  {
    PosixLock hold(lock_);
    stock = stocks_.get();
  }
  if (stock == nullptr) return nullptr;
  stock->capacity = pool.free_buffers().stock_capacity();
  pool.free_buffers().join(stock, place);
  return stock;
}

void StockStore::give(Stock* stock) {
  PosixLock hold(lock_);
  stocks_.put(stock);
}

void StockStore::end_thread() {
  ThreadStocks* const mine = ThreadStocks::mine;
  if (mine == nullptr) return;
  (void)pthread_setspecific(key_, nullptr);
  thread_ends(mine);
}

// If a later destructor of this thread uses a pool, the thread gets new stocks and this runs again.
void StockStore::thread_ends(void* ended) {
  auto* const stocks = static_cast<ThreadStocks*>(ended);
  StockStore& self = *stocks->store;
  ThreadStocks::mine = nullptr;
  for (size_t i = 0; i < PoolList::kMost; ++i) {
    if (stocks->of[i].load(std::memory_order_relaxed) == nullptr) continue;
    Stock* const stock = self.pools_->at(i).free_buffers().leave(&stocks->of[i]);
    if (stock != nullptr) self.give(stock);
  }
  PosixLock hold(self.lock_);
  self.threads_.put(stocks);
}

}  // namespace rdmalloc
