#include "regcache/pool/pool_growth.h"

#include "allocator/os/clock.h"
#include "regcache/pool/pools.h"
#include "regcache/posix_lock.h"

namespace rdmalloc {
namespace {

constexpr size_t kFirstStep = size_t{256} << 10;
constexpr size_t kLongestStep = size_t{64} << 20;
// After growing has failed, further attempts fail without a try for this long.
constexpr uint64_t kRetryNs = 100'000'000;

size_t least(size_t a, size_t b) { return a < b ? a : b; }
size_t most_of(size_t a, size_t b) { return a > b ? a : b; }

}  // namespace

PoolGrowth::PoolGrowth(Pools& pools, const PoolBuffers& buffers, Shelves& shelves)
    : memory_(pools.memory()),
      table_(pools.chunks()),
      source_(table_, memory_, pools.has_several_nodes()),
      buffers_(buffers),
      shelves_(shelves) {}

void PoolGrowth::open(const PoolSettings& settings) {
  settings_ = settings;
  source_.open(settings);
  first_chunk_ = nullptr;
  refusal_.at = 0;
  grown_ = 0;
}

size_t PoolGrowth::next_step() const {
  const size_t held = shelves_.held();
  size_t step = settings_.grow_by;
  if (step == 0) step = most_of(kFirstStep / stride(), held / 2);
  step = least(step, kLongestStep / stride());
  return least(most_of(step, 1), settings_.most - held);
}

int PoolGrowth::grow(int node) {
  PosixLock hold(&lock_, LockRank::kOuter);
  if (!shelves_.is_empty(node)) return RDM_OK;
  if (shelves_.held() >= settings_.most) return RDM_OUT_OF_BUDGET;
  const uint64_t now = os::now_ns();
  if (refusal_.at != 0 && now - refusal_.at < kRetryNs) return refusal_.status;
  Message why;
  const int status = add_chunk_or_less(next_step(), &why);
  refusal_.at = status == RDM_OK ? 0 : now;
  refusal_.status = status;
  why.copy_to(refusal_.why, sizeof refusal_.why);
  if (status == RDM_OK && first_chunk_->node != node) shelves_.note_misplaced(node);
  return status;
}

void PoolGrowth::say_refusal(Message* why) {
  PosixLock hold(&lock_, LockRank::kOuter);
  if (shelves_.held() >= settings_.most) {
    why->add("the pool may have no more");
  } else {
    why->add("no more could be had: ").add(refusal_.why);
  }
}

// If a budget has no room for this many, it may have room for fewer.
int PoolGrowth::add_chunk_or_less(size_t wanted, Message* why) {
  for (size_t count = wanted;; count /= 2) {
    const int status = add_chunk(count, why);
    if (status != RDM_OUT_OF_BUDGET || count <= 1) return status;
    why->clear();
  }
}

// Under the lock, or while the pool starts.
int PoolGrowth::add_chunk(size_t wanted, Message* why) {
  Chunk* chunk = nullptr;
  const int status = source_.take(wanted, settings_.most - shelves_.held(), &chunk, why);
  if (status != RDM_OK) return status;
  if (!shelves_.make_room(memory_, chunk->node, chunk->usable)) {
    source_.give_back(chunk);
    why->add("no memory for the pool's books");
    return RDM_SYSTEM;
  }
  chunk->keys.store(chunk->all_keys, std::memory_order_relaxed);
  chunk->owner.store(&buffers_, std::memory_order_relaxed);
  table_.publish(*chunk);
  chunk->next = first_chunk_;
  first_chunk_ = chunk;
  grown_.fetch_add(1, std::memory_order_relaxed);
  shelves_.add(*chunk);
  return status;
}

// Unlinks each chunk first, so that a child forked meanwhile finds the lists consistent.
void PoolGrowth::release() {
  while (first_chunk_ != nullptr) {
    Chunk* const chunk = first_chunk_;
    first_chunk_ = chunk->next;
    table_.withdraw(*chunk);
    chunk->owner.store(nullptr, std::memory_order_relaxed);
    source_.give_back(chunk);
  }
  shelves_.release(memory_);
}

void PoolGrowth::count_states(size_t counted[3]) const {
  for (const Chunk* chunk = first_chunk_; chunk != nullptr; chunk = chunk->next) {
    for (uint32_t i = 0; i < chunk->count; ++i) ++counted[chunk->state_of(i)];
  }
}

}  // namespace rdmalloc
