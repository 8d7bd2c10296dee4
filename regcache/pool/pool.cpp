#include "regcache/pool/pool.h"

#include "allocator/last_error.h"
#include "allocator/os/thread.h"
#include "regcache/pool/pool_memory.h"
#include "regcache/pool/pools.h"

namespace rdmalloc {
namespace {

// If a pool has a limit, each thread may keep 1/kShare of it.
constexpr size_t kShare = 16;
constexpr size_t kBytesInBatch = size_t{512} << 10;

size_t between(size_t least, size_t value, size_t most) {
  return value < least ? least : value > most ? most : value;
}

uint32_t batch_for(const PoolSettings& settings, size_t stride) {
  size_t batch = between(1, kBytesInBatch / stride, Stock::kMost / 2);
  if (settings.most != SIZE_MAX) batch = between(1, settings.most / kShare, batch);
  return static_cast<uint32_t>(batch);
}

int fail_with(int status, const Message& why) {
  why.copy_to(new_last_error(), kLongestError);
  return status;
}

bool find(FreeBuffers& free, PoolGrowth& growth, int node, Stock* stock, PoolItem* out) {
  for (;;) {
    if (free.refill(stock, node, out)) return true;
    // If the pool cannot grow on this node, a buffer on another node is just as good.
    if (free.shelves().is_misplaced(node) && free.take_anywhere(out)) return true;
    if (growth.grow(node) != RDM_OK) break;
    if (free.refill(stock, node, out) || free.take_anywhere(out)) return true;
  }
  return free.take_anywhere(out) || free.steal(stock, out);
}

// False: the program destroyed the buffer.
bool hand_out(const PoolItem& item, const PoolBuffers& buffers, Shelves& shelves, rdm_buffer* out) {
  if (buffers.hand_out(item, out) || buffers.hand_out_checked(item, out)) return true;
  shelves.note_destroyed();
  return false;
}

}  // namespace

Pool::Pool(Pools& pools, uint32_t number)
    : buffers_(pools.chunks().map(), pools.memory()),
      number_(number),
      free_(buffers_),
      growth_(pools, buffers_, free_.shelves()),
      pools_(pools) {}

// In a child of fork, this pool may contain leftovers of a parent's thread that was creating it.
int Pool::create(const PoolSettings& asked, Message* why) {
  PoolSettings settings = asked;
  if (settings.domain != nullptr && pools_.memory().takes_exposed_only(settings.domain)) {
    settings.flags |= RDM_EXPOSED;
  }
  buffers_.open(settings.buffer_bytes);
  growth_.open(settings);
  free_.open(pools_.is_fenced(), batch_for(settings, growth_.stride()));
  failed_ = 0;
  const int status = growth_.fill_reserve(why);
  if (status != RDM_OK) growth_.release();
  phase_.store(status == RDM_OK ? Phase::kOpen : Phase::kFree, std::memory_order_release);
  return status;
}

int Pool::get_slowly(Pool* pool, rdm_buffer* out) {
  if (pool == nullptr || out == nullptr) {
    return fail(RDM_INVALID, "the pool, or the place for the buffer, is null");
  }
  if (const int status = pool->refuse_unless_open(); status != RDM_OK) return status;
  const os::NoCancel no_cancel;
  Stock* const stock = pool->pools_.stocks().of_this_thread(*pool);
  PoolItem item;
  while (find(pool->free_, pool->growth_, pool->pools_.node_here(), stock, &item)) {
    if (hand_out(item, pool->buffers_, pool->free_.shelves(), out)) return RDM_OK;
  }
  pool->failed_.fetch_add(1, std::memory_order_relaxed);
  Message why;
  why.add("all ").add_number(pool->free_.shelves().held()).add(" buffers are out, and ");
  pool->growth_.say_refusal(&why);
  return fail_with(RDM_OUT_OF_BUDGET, why);
}

int Pool::get_beside_holes(const PoolItem& item, rdm_buffer* out) {
  return hand_out(item, buffers_, free_.shelves(), out) ? int{RDM_OK} : get_slowly(this, out);
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

int Pool::refuse_put(Pool* pool, const void* address) {
  if (pool == nullptr) return fail(RDM_INVALID, "the pool is null");
  const Phase phase = pool->phase_.load(std::memory_order_acquire);
  if (phase != Phase::kOpen && phase != Phase::kForked) return pool->refuse_unless_open();
  return pool->buffers_.refuse(address);
}

// For a buffer that is now free and did not fit in the thread's stock.
int Pool::give_back(const PoolItem& item) {
  if (phase_.load(std::memory_order_acquire) != Phase::kOpen) return RDM_OK;
  const os::NoCancel no_cancel;
  free_.put(pools_.stocks().of_this_thread(*this), item);
  return RDM_OK;
}

int Pool::key(Pool* pool, const void* address, rdm_mr* out) {
  if (pool == nullptr || out == nullptr) {
    return fail(RDM_INVALID, "the pool, or the place for the key, is null");
  }
  if (const int status = pool->refuse_unless_open(); status != RDM_OK) return status;
  return pool->buffers_.key(address, out);
}

int Pool::counts(rdm_pool_counts* out) {
  if (phase_.load(std::memory_order_acquire) == Phase::kFree) return refuse_unless_open();
  const os::NoCancel no_cancel;
  *out = {};
  free_.count(out);
  out->grown = growth_.grown();
  out->failed = failed_.load(std::memory_order_relaxed);
  return RDM_OK;
}

int Pool::close() {
  const os::NoCancel no_cancel;
  Stock* stocks = nullptr;
  const bool is_own = phase_.load(std::memory_order_acquire) == Phase::kOpen;
  if (is_own) {
    if (const size_t out = free_.disband_if_idle(&stocks); out != 0) {
      Message why;
      why.add_number(out).add(out == 1 ? " buffer of the pool is" : " buffers of the pool are");
      return fail_with(RDM_BUSY, why.add(" out: put back all that was got"));
    }
  }
  while (stocks != nullptr) {
    Stock* const stock = stocks;
    stocks = stock->next;
    pools_.stocks().give(stock);
  }
  growth_.release();
  // What a pool inherited from the parent holds belongs to the parent.
  rdm_domain* const domain = growth_.settings().domain;
  if (is_own && domain != nullptr) pools_.memory().let_go(domain);
  phase_.store(Phase::kFree, std::memory_order_release);
  return RDM_OK;
}

// Threads that no longer exist may have held locks. What these locks guard is not used again,
// except the list of chunks, which is consistent at every moment.
void Pool::note_fork_child() {
  growth_.note_fork_child();
  free_.note_fork_child();
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
  size_t counted[3] = {};
  growth_.count_states(counted);
  return free_.validate(counted[static_cast<size_t>(BufferState::kFree)],
                        counted[static_cast<size_t>(BufferState::kOut)]);
}

}  // namespace rdmalloc
