// How free buffers move between the stocks of threads and the shelves of nodes.
#include "regcache/pool/pool_stocks.h"

#include "regcache/posix_lock.h"

namespace rdmalloc {

void Pool::join(Stock* stock, std::atomic<Stock*>* place) {
  PosixLock hold(&members_, LockRank::kMembers);
  stock->place = place;
  stock->next = first_stock_;
  if (first_stock_ != nullptr) first_stock_->previous = stock;
  first_stock_ = stock;
  place->store(stock, std::memory_order_relaxed);
}

Stock* Pool::leave(std::atomic<Stock*>* place) {
  PosixLock members(&members_, LockRank::kMembers);
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

// Under the shelf lock. The room exists: see make_room().
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

// Takes one buffer for the caller and up to a batch for its stock.
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

// Takes from the fullest stock: one buffer for the caller, half of the rest for its stock. Misses
// no free buffer, except one that a thread is just returning.
bool Pool::steal(Stock* mine, PoolItem* out) {
  PosixLock hold(&members_, LockRank::kMembers);
  const Revoked revoked(*this, mine);
  PosixLock shelves(&shelf_lock_);
  if (take_from_shelves(out)) return true;
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
    if (!mine->push(taken[i])) shelve(&taken[i], 1);
  }
  return true;
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

// Under members_. Takes the stocks away from their threads and returns them linked.
Stock* Pool::disband() {
  Stock* const all = first_stock_;
  for (Stock* stock = all; stock != nullptr; stock = stock->next) {
    stock->place->store(nullptr, std::memory_order_relaxed);
  }
  first_stock_ = nullptr;
  return all;
}

}  // namespace rdmalloc
