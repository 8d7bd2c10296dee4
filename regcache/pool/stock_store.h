// Gives each thread its stocks, and takes them back when it ends. Takes the lock of Pools for its
// records, and while it holds that, no other. Never inside malloc. Constant-initialised.
#pragma once

#include <pthread.h>

#include "allocator/record_store.h"
#include "regcache/pool/pool_list.h"

namespace rdmalloc {

class StockStore {
 public:
  constexpr StockStore(const PoolList& pools, pthread_mutex_t& lock)
      : pools_(&pools), lock_(&lock) {}
  StockStore(const StockStore&) = delete;
  StockStore& operator=(const StockStore&) = delete;

  bool set_up() { return pthread_key_create(&key_, thread_ends) == 0; }

  // The calling thread's stock of this pool; made if there is none. Null: there is no memory for
  // it, and the thread does without.
  Stock* of_this_thread(Pool& pool);
  void give(Stock* stock);
  // Gives back the calling thread's stocks, as when it ends; for tests.
  void end_thread();

 private:
  ThreadStocks* stocks_here();
  static void thread_ends(void* stocks);

  const PoolList* const pools_;
  pthread_mutex_t* const lock_;
  pthread_key_t key_ = 0;  // its destructor tells that a thread ends
  RecordStore<Stock> stocks_;
  RecordStore<ThreadStocks> threads_;
};

}  // namespace rdmalloc
