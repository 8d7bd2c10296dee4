// Recently freed blocks, by processor and size: most frees and mallocs of large blocks meet here,
// without a lock and, where threads free what they malloc, without a cache line that other
// processors write.
//
// What one processor keeps is bounded by a share of what the heap holds; it may always keep one
// block. The share is large where blocks come and go so fast that nobody can have used them: then a
// depot's lock is what costs. A program that uses its blocks for microseconds gains more if the
// memory that it gets is still in the processor's own cache. Depots hand out the same memory again
// and again, whatever the sizes, so the share is small there.
//
// What does not fit goes to bins that all processors share, where any of them finds it. Where one
// thread frees what another mallocs, all blocks do: a processor on which hardly any block is
// malloced again keeps none. Otherwise it would keep half of the heap, and the depot would be cut
// into pieces that nobody can use.
//
// Runs inside malloc, under no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"
#include "allocator/os/processor.h"
#include "allocator/pages/cpu_cache.h"
#include "allocator/pages/shared_bins.h"
#include "allocator/status.h"

namespace rdmalloc {

class CpuCaches {
 public:
  using Block = CachedBlock;

  constexpr CpuCaches() = default;
  CpuCaches(const CpuCaches&) = delete;
  CpuCaches& operator=(const CpuCaches&) = delete;

  // Takes a small share of as many addresses as the window has: where these are few, several
  // processors have one cache.
  Status boot(size_t window);
  // What boot() will map.
  static size_t table_bytes(size_t window) {
    return sizeof(SharedBins) + caches_of(window) * sizeof(CpuCache);
  }

  // A block for that many pages, or a block of no pages.
  [[gnu::always_inline]] Block take(size_t pages) {
    return take_if(pages, [](size_t) { return true; });
  }

  // The same, of those whose first page is_right(page) says yes to: of an alignment, say.
  template <typename IsRight>
  [[gnu::always_inline]] Block take_if(size_t pages, IsRight is_right) {
    Block block;
    if (!BlockClasses::has(pages)) return block;
    const ptrdiff_t at = os::sequences_at.load(std::memory_order_relaxed);
    const size_t number = at == 0 ? 0 : os::processor_number(at);
    if (at != 0 && number < used_.load(std::memory_order_relaxed)) [[likely]] {
      CpuCache& here = caches_[number];
      const Attempt result = here.take(pages, is_right, block, [&](const os::Change& change) {
        return here.lock().change_by_sequence<false>(at, number, change);
      });
      if (result == Attempt::kDone) [[likely]]
        return block;
      if (result == Attempt::kImpossible) {
        here.note_miss();
        return {};
      }
    }
    return take_again(pages, is_right);
  }

  // The same of what all processors share.
  template <typename IsRight>
  Block take_shared(size_t pages, IsRight is_right) {
    const bool may_be_there = shared_ != nullptr && BlockClasses::has(pages);
    return may_be_there ? shared_->take(pages, is_right) : Block{};
  }

  // A larger block than take() would give, from the smallest class that has one: to be split.
  Block take_larger(size_t pages);
  // What it would take.
  Block find_larger(size_t pages) const;

  // False: no cache kept the block, and the caller still has it.
  [[gnu::always_inline]] bool give(Block block) {
    if (!BlockClasses::has(block.pages)) return false;
    const ptrdiff_t at = os::sequences_at.load(std::memory_order_relaxed);
    const size_t number = at == 0 ? 0 : os::processor_number(at);
    if (at != 0 && number < used_.load(std::memory_order_relaxed)) [[likely]] {
      CpuCache& here = caches_[number];
      here.note_free();
      const size_t most = most_kept_[here.use()].load(std::memory_order_relaxed);
      const Attempt result = here.give(block, most, [&](const os::Change& change) {
        return here.lock().change_by_sequence<true>(at, number, change);
      });
      if (result == Attempt::kDone) [[likely]]
        return true;
      if (result == Attempt::kImpossible) return give_elsewhere(here, block);
    }
    return give_again(block);
  }

  // Takes the blocks of all processors out, beginning with this processor's and what all share,
  // which nobody else notices, and with the largest. Calls release(block) for each, under no lock,
  // until it returns true. `patient`: waits for whoever uses a cache, instead of passing it by.
  template <typename Release>
  void drain(bool patient, Release release) {
    if (shared_ == nullptr) return;
    const size_t used = used_.load(std::memory_order_acquire);
    const size_t here = number_here();
    if (here < used && caches_[here].drain(here, true, patient, release)) return;
    if (shared_->drain(patient, release)) return;
    for (size_t i = 0; i < used; ++i) {
      if (i != here && caches_[i].drain(i, false, patient, release)) return;
    }
  }

  // Bytes that they keep. Read without their locks: accurate enough for statistics.
  size_t bytes() const;
  // The same, as it was at most as many calls ago as there are caches: reading them all takes them
  // from their processors.
  size_t bytes_lately();

  // So many bytes are held for blocks: sets how many each processor may keep. They are
  // taken out before the heap grows, unless little is free or nobody touched them
  // (GatheringPolicy).
  void set_held(size_t bytes);

  // Around fork: in the child every cache is in order and free to be used.
  void lock_all();
  void unlock_all();
  // In the child, before unlock_all().
  void note_fork_child();

 private:
  static constexpr int kTries = 3;

  static size_t caches_of(size_t window);
  size_t number_here() const { return os::current_processor() & mask_; }
  bool may_use(size_t number);  // for the first time

  // Where the short way is not possible, or something came in between.
  template <typename IsRight>
  [[gnu::noinline]] Block take_again(size_t pages, IsRight is_right) {
    if (caches_ == nullptr) return {};
    for (int i = 0; i < kTries; ++i) {
      const size_t number = number_here();
      CpuCache& here = caches_[number];
      Block block;
      const Attempt result = here.take(pages, is_right, block, [&](const os::Change& change) {
        return here.lock().change(number, change);
      });
      if (result == Attempt::kDone) return block;
      if (result == Attempt::kInterrupted) continue;
      here.note_miss();
      break;
    }
    return {};
  }
  bool give_again(Block block);
  bool give_elsewhere(CpuCache& here, Block block);

  SharedBins* shared_ = nullptr;  // none, as there are no caches, without a window
  CpuCache* caches_ = nullptr;    // backed only for processors that run the program
  size_t mask_ = 0;               // of processor numbers: how many there are, less 1
  std::atomic<size_t> used_{0};   // the highest number of one that was used, plus 1
  std::atomic<size_t> most_kept_[CpuCache::kUses] = {};  // pages, for each use of a cache
  // Apart from what every malloc reads.
  alignas(os::kCacheLine) std::atomic<size_t> bytes_then_{0};
  std::atomic<size_t> calls_since_{0};
  std::atomic<bool> is_locked_{false};  // by fork
  size_t locked_ = 0;                   // how many are
};

}  // namespace rdmalloc
