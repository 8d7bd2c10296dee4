#include "allocator/pages/cpu_caches.h"

#include <algorithm>

namespace rdmalloc {
namespace {

constexpr size_t kMostProcessors = os::kMostProcessors;
static_assert((kMostProcessors & (kMostProcessors - 1)) == 0);

// The caches take this part of the window's size at most, of addresses.
constexpr size_t kShareOfWindow = 64;

// Of what is held for blocks, each processor may keep a half: a thread that replaces its blocks
// finds nearly all of them again, and whoever needs more memory takes them out first. In a small
// heap that is too little for a single batch of blocks, so some bytes are always allowed.
constexpr size_t kShareKept = 2;
constexpr size_t kLeastKept = size_t{16} << 20;
// Where blocks are used, a twelfth: a sixth and an eighth raised the footprint of programs whose
// sizes change, and so did nothing at all (bench/README.md, "Large blocks, untouched").
constexpr size_t kShareKeptSlow = 12;

}  // namespace

size_t CpuCaches::caches_of(size_t window) {
  size_t count = kMostProcessors;
  while (count > 1 && count * sizeof(CpuCache) > window / kShareOfWindow) count /= 2;
  return count;
}

Status CpuCaches::boot(size_t window) {
  os::find_processor_number();
  set_held(0);
  caches_ = static_cast<CpuCache*>(os::map_table(table_bytes(window)));
  mask_ = caches_of(window) - 1;
  return caches_ == nullptr ? Status::kNoMemory : Status::kOk;
}

// Before the processor's first block is kept, so that drain() misses none. Writes first and looks
// afterwards, as lock_all() does: if this thread goes on to take the byte, lock_all() waits for it.
bool CpuCaches::may_use(size_t number) {
  size_t used = used_.load(std::memory_order_relaxed);
  while (used <= number && !used_.compare_exchange_weak(used, number + 1)) {
  }
  return !is_locked_.load();
}

CpuCaches::Block CpuCaches::take_larger(size_t pages) {
  if (!BlockClasses::has(pages)) return {};
  const size_t number = number_here();
  CpuCache& here = caches_[number];
  if (number >= used_.load(std::memory_order_relaxed) || !here.try_lock()) return {};
  const Block block = here.take_larger(pages);
  here.unlock();
  return block;
}

void CpuCaches::set_held(size_t bytes) {
  const size_t most = std::max(bytes / kShareKept, kLeastKept);
  most_kept_.store(most / os::page_size(), std::memory_order_relaxed);
  most_kept_slow_.store(bytes / kShareKeptSlow / os::page_size(), std::memory_order_relaxed);
}

size_t CpuCaches::bytes() const {
  size_t pages = 0;
  for (size_t i = 0; i < used_.load(std::memory_order_acquire); ++i) pages += caches_[i].kept();
  return pages * os::page_size();
}

void CpuCaches::lock_all() {
  is_locked_ = true;
  for (locked_ = 0; locked_ < used_.load(); ++locked_) caches_[locked_].lock(true);
}

void CpuCaches::unlock_all() {
  for (size_t i = 0; i < locked_; ++i) caches_[i].unlock();
  is_locked_ = false;
}

}  // namespace rdmalloc
