#include "regcache/pool/pools.h"

#include <new>

#include "allocator/breakage.h"
#include "allocator/os/memory.h"
#include "allocator/os/process_barrier.h"
#include "allocator/os/thread.h"
#include "regcache/pool/pool_memory.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {

bool Pools::set_up() {
  // The window exists once something has been allocated.
  memory_->release(memory_->allocate(1, 0, 0));
  window_base_ = memory_->window().base();
  window_size_ = memory_->window().size();
  if (window_size_ == 0 || window_base_ % Chunk::kUnit != 0) return false;
  const size_t units = (window_size_ + Chunk::kUnit - 1) >> Chunk::kUnitShift;
  if (units_ == nullptr) {
    units_ = static_cast<std::atomic<uint32_t>*>(os::map_metadata(units * sizeof *units_));
  }
  if (chunks_ == nullptr) {
    chunks_ = static_cast<Chunk*>(os::map_metadata(kMaxChunks * sizeof(Chunk)));
  }
  if (units_ == nullptr || chunks_ == nullptr) return false;
  several_nodes_ = os::has_several_nodes();
  return memory_->attach(this) && pthread_key_create(&key_, thread_ends) == 0;
}

void Pools::on_hole(const Region& region) noexcept { mark_holes(region.base, region.end()); }

// Makes gets in chunks with holes check each buffer. Whoever makes a hole marks its pages and then
// reads the table of units; whoever adds a chunk writes the table and then reads the marks. The one
// that comes to meeting_ second sees what the other wrote. A record that was meanwhile taken for
// another chunk is marked for nothing, and right.
void Pools::mark_holes(uintptr_t from, uintptr_t to) {
  meeting_.fetch_add(1, std::memory_order_acq_rel);
  const PageMarks& marks = memory_->marks();
  const auto unit_of = [this](uintptr_t address) {
    return (address - window_base_) >> Chunk::kUnitShift;
  };
  for (uintptr_t at = marks.first_hole(from, to); at < to; at = marks.first_hole(at, to)) {
    const size_t unit = unit_of(at);
    const uint32_t number = units_[unit].load(std::memory_order_acquire);
    if (number != 0 && !RDM_BROKEN(destroyed_buffer_has_key)) {
      chunks_[number].keys.store(nullptr, std::memory_order_relaxed);
    }
    at = window_base_ + ((unit + 1) << Chunk::kUnitShift);
    if (at >= to) break;
  }
}

// Under the lock.
bool Pools::start() {
  if (started_) return true;
  started_ = set_up();
  return started_;
}

Pool* Pools::take_pool(Message* why) {
  for (size_t i = 0; i < kMaxPools; ++i) {
    const size_t number = (next_pool_ + i) % kMaxPools;
    Pool* known = pools_[number].load(std::memory_order_relaxed);
    if (known != nullptr && known->is_in_use()) continue;
    if (known == nullptr) {
      void* const memory = os::map_metadata(sizeof(Pool));
      if (memory == nullptr) break;
      known = new (memory) Pool(static_cast<uint32_t>(number));
      pools_[number].store(known, std::memory_order_release);
    }
    next_pool_ = (number + 1) % kMaxPools;
    return known;
  }
  why->add("too many pools are open, or there is no memory for another's books: close one");
  return nullptr;
}

int Pools::create(const PoolSettings& settings, Pool** out, Message* why) {
  const os::NoCancel no_cancel;
  if (settings.domain != nullptr && !memory_->hold(settings.domain)) {
    why->add("the domain is closed, or is of the parent process");
    return RDM_INVALID;
  }
  const int status = create_held(settings, out, why);
  if (status != RDM_OK && settings.domain != nullptr) memory_->let_go(settings.domain);
  return status;
}

// In a domain that the caller holds; the pool lets go of it when it is closed.
int Pools::create_held(const PoolSettings& settings, Pool** out, Message* why) {
  Pool* pool = nullptr;
  {
    PosixLock hold(&mutex_);
    if (!start()) {
      why->add("no address space for the pools' books, or no window to take memory from");
      return RDM_SYSTEM;
    }
    if (fenced_) fenced_ = !os::enable_process_barrier();
    pool = take_pool(why);
    if (pool == nullptr) return RDM_UNSUPPORTED;
    pool->reserve_for(*this);
  }
  const int status = pool->create(settings, why);
  if (status == RDM_OK) *out = pool;
  return status;
}

Pool* Pools::find(const rdm_pool* handle) const {
  for (const std::atomic<Pool*>& place : pools_) {
    Pool* const known = place.load(std::memory_order_acquire);
    if (known == nullptr || static_cast<const void*>(known) != handle) continue;
    return known->is_in_use() ? known : nullptr;
  }
  return nullptr;
}

// Under the lock. Chunk records that were never used stay untouched until needed.
Chunk* Pools::take_chunk() {
  PosixLock hold(&mutex_);
  Chunk* chunk = free_chunks_;
  if (chunk != nullptr) {
    free_chunks_ = chunk->next;
    chunk->next = nullptr;
    return chunk;
  }
  if (next_chunk_ == kMaxChunks) return nullptr;
  chunk = &chunks_[next_chunk_];
  chunk->number = static_cast<uint32_t>(next_chunk_++);
  return chunk;
}

void Pools::give_chunk(Chunk* chunk) {
  PosixLock hold(&mutex_);
  chunk->next = free_chunks_;
  free_chunks_ = chunk;
}

ThreadStocks* Pools::stocks_here() {
  if (ThreadStocks::mine != nullptr) return ThreadStocks::mine;
  ThreadStocks* made = nullptr;
  {
    PosixLock hold(&mutex_);
    made = threads_.get();
  }
  if (made == nullptr) return nullptr;
  made->pools = this;
  if (pthread_setspecific(key_, made) != 0) {
    PosixLock hold(&mutex_);
    threads_.put(made);
    return nullptr;
  }
  ThreadStocks::mine = made;
  return made;
}

Stock* Pools::stock_of(Pool& pool, uint32_t capacity) {
  ThreadStocks* const mine = stocks_here();
  if (mine == nullptr) return nullptr;
  std::atomic<Stock*>* const place = &mine->of[pool.number()];
  if (Stock* known = place->load(std::memory_order_relaxed); known != nullptr) return known;
  Stock* stock = nullptr;
  {
    PosixLock hold(&mutex_);
    stock = stocks_.get();
  }
  if (stock == nullptr) return nullptr;
  stock->capacity = capacity;
  pool.join(stock, place);
  return stock;
}

void Pools::give_stock(Stock* stock) {
  PosixLock hold(&mutex_);
  stocks_.put(stock);
}

void Pools::end_thread() {
  ThreadStocks* const mine = ThreadStocks::mine;
  if (mine == nullptr) return;
  (void)pthread_setspecific(key_, nullptr);
  thread_ends(mine);
}

// If a later destructor of this thread uses a pool, the thread gets new stocks and this runs again.
void Pools::thread_ends(void* ended) {
  auto* const stocks = static_cast<ThreadStocks*>(ended);
  Pools& self = *stocks->pools;
  ThreadStocks::mine = nullptr;
  for (size_t i = 0; i < kMaxPools; ++i) {
    if (stocks->of[i].load(std::memory_order_relaxed) == nullptr) continue;
    Stock* const stock = self.pools_[i].load(std::memory_order_acquire)->leave(&stocks->of[i]);
    if (stock != nullptr) self.give_stock(stock);
  }
  PosixLock hold(&self.mutex_);
  self.threads_.put(stocks);
}

void Pools::after_fork_in_child() {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  fenced_ = true;
  for (const std::atomic<Pool*>& place : pools_) {
    Pool* const known = place.load(std::memory_order_relaxed);
    if (known != nullptr) known->note_fork_child();
  }
}

}  // namespace rdmalloc
