// The free buffers of a pool: those in the stocks of its threads, those on its shelves, and how
// they move between these. Never inside malloc.
//
// Locks, outermost first: members_, which guards the list of stocks, and the shelves'. A stock is
// used by its owner (StockUse), or by a thread that holds members_ and revoked it (Revoked).
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "include/rdmalloc/pool.h"
#include "regcache/pool/pool_buffers.h"
#include "regcache/pool/shelves.h"
#include "regcache/pool/stock.h"

namespace rdmalloc {

class FreeBuffers {
 public:
  explicit FreeBuffers(const PoolBuffers& buffers) : buffers_(buffers), shelves_(buffers) {}
  FreeBuffers(const FreeBuffers&) = delete;
  FreeBuffers& operator=(const FreeBuffers&) = delete;

  // `batch`: how many buffers a thread exchanges with the shelves at a time.
  void open(bool fenced, uint32_t batch);
  // See Stock::enter().
  bool is_fenced() const { return fenced_; }
  uint32_t stock_capacity() const { return 2 * batch_; }
  Shelves& shelves() { return shelves_; }

  // A thread joins with a stock of its own, and leaves.
  void join(Stock* stock, std::atomic<Stock*>* place);
  // What was in `place`; null: a pool that was closed meanwhile has taken it.
  Stock* leave(std::atomic<Stock*>* place);

  // Stocks of the calling thread may be null.
  // Takes one buffer for the caller and up to a batch for its stock.
  bool refill(Stock* stock, int node, PoolItem* out);
  bool take_anywhere(PoolItem* out);
  bool steal(Stock* mine, PoolItem* out);
  // A buffer that did not fit in the thread's stock.
  void put(Stock* stock, const PoolItem& item);

  // Fills in what is held, free and out.
  void count(rdm_pool_counts* out);
  // Takes the stocks away from their threads and returns them linked, unless buffers are out:
  // returns how many.
  size_t disband_if_idle(Stock** stocks);

  // In the child of a fork, by the only thread there is.
  void note_fork_child();
  bool validate(size_t free, size_t out);  // as the states say

 private:
  class StockUse;
  class Revoked;

  size_t free_now() const;
  Stock* disband();

  bool fenced_ = false;
  uint32_t batch_ = 1;
  const PoolBuffers& buffers_;
  pthread_mutex_t members_ = PTHREAD_MUTEX_INITIALIZER;
  Stock* first_stock_ = nullptr;
  Shelves shelves_;
};

}  // namespace rdmalloc
