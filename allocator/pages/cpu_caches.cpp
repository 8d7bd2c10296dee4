#include "allocator/pages/cpu_caches.h"

#include <algorithm>

namespace rdmalloc {
namespace {

constexpr size_t kMostProcessors = os::kMostProcessors;
static_assert((kMostProcessors & (kMostProcessors - 1)) == 0);

// The caches take this part of the window's size at most, of addresses.
constexpr size_t kShareForCaches = 64;

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
  while (count > 1 && count * sizeof(CpuCache) > window / kShareForCaches) count /= 2;
  return count;
}

Status CpuCaches::boot(size_t window) {
  // A processor's sequences keep out its own threads, and not those of others.
  const size_t count = caches_of(window);
  if (count == kMostProcessors) {
    os::enable_sequences();
  } else {
    os::find_processor_number();
  }
  set_held(0);
  char* const table = static_cast<char*>(os::map_table(table_bytes(window)));
  if (table == nullptr) return Status::kNoMemory;
  caches_ = reinterpret_cast<CpuCache*>(table);
  shared_ = reinterpret_cast<SharedBins*>(table + count * sizeof(CpuCache));
  mask_ = count - 1;
  return Status::kOk;
}

// Before the processor's first block is kept, so that drain() misses none. Writes first and looks
// afterwards, as lock_all() does: if this thread goes on to take the byte, lock_all() waits for it.
bool CpuCaches::may_use(size_t number) {
  size_t used = used_.load(std::memory_order_relaxed);
  while (used <= number && !used_.compare_exchange_weak(used, number + 1)) {
  }
  return !is_locked_.load();
}

bool CpuCaches::give_elsewhere(CpuCache& here, Block block) {
  here.note_elsewhere();
  const CpuCache::Use use = here.is_slow() ? CpuCache::kSlow : CpuCache::kFast;
  return shared_->give(block, most_kept_[use].load(std::memory_order_relaxed));
}

bool CpuCaches::give_again(Block block) {
  if (caches_ == nullptr) return false;
  for (int i = 0; i < kTries; ++i) {
    const size_t number = number_here();
    if (number >= used_.load(std::memory_order_relaxed) && !may_use(number)) return false;
    CpuCache& here = caches_[number];
    if (i == 0) here.note_free();
    const size_t most = most_kept_[here.use()].load(std::memory_order_relaxed);
    const Attempt result = here.give(
        block, most, [&](const os::Change& change) { return here.lock().change(number, change); });
    if (result == Attempt::kDone) return true;
    if (result == Attempt::kImpossible) return give_elsewhere(here, block);
  }
  return false;
}

CpuCaches::Block CpuCaches::take_larger(size_t pages) {
  Block block;
  if (caches_ == nullptr || !BlockClasses::has(pages)) return block;
  const size_t number = number_here();
  return caches_[number].take_larger(number, pages, block) == Attempt::kDone ? block : Block{};
}

CpuCaches::Block CpuCaches::find_larger(size_t pages) const {
  if (caches_ == nullptr || !BlockClasses::has(pages)) return {};
  return caches_[number_here()].find_larger(pages);
}

void CpuCaches::set_held(size_t bytes) {
  const size_t most = std::max(bytes / kShareKept, kLeastKept);
  const auto set = [this](CpuCache::Use use, size_t may_be_kept) {
    most_kept_[use].store(may_be_kept / os::page_size(), std::memory_order_relaxed);
  };
  set(CpuCache::kFast, most);
  set(CpuCache::kSlow, bytes / kShareKeptSlow);
  set(CpuCache::kHandedOn, 0);
}

size_t CpuCaches::bytes() const {
  size_t pages = shared_ == nullptr ? 0 : shared_->kept();
  for (size_t i = 0; i < used_.load(std::memory_order_acquire); ++i) pages += caches_[i].kept();
  return pages * os::page_size();
}

size_t CpuCaches::bytes_lately() {
  const size_t calls = calls_since_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (calls >= used_.load(std::memory_order_relaxed)) {
    calls_since_.store(0, std::memory_order_relaxed);
    bytes_then_.store(bytes(), std::memory_order_relaxed);
  }
  return bytes_then_.load(std::memory_order_relaxed);
}

void CpuCaches::lock_all() {
  is_locked_ = true;
  for (locked_ = 0; locked_ < used_.load(); ++locked_) caches_[locked_].lock().begin_to_close();
  os::ProcessorLock::wait_for_sequences();
  for (size_t i = 0; i < locked_; ++i) {
    caches_[i].lock().end_closing();
    caches_[i].lock().lock();
  }
  if (shared_ != nullptr) shared_->lock_all();
}

void CpuCaches::unlock_all() {
  if (shared_ != nullptr) shared_->unlock_all();
  for (size_t i = 0; i < locked_; ++i) {
    caches_[i].lock().unlock();
    caches_[i].lock().open();
  }
  is_locked_ = false;
}

void CpuCaches::note_fork_child() {
  os::renew_sequences();
  for (size_t i = 0; i < locked_; ++i) caches_[i].note_fork_child();
}

}  // namespace rdmalloc
