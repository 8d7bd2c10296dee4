// Recently freed blocks, by processor and size: most frees and mallocs of large blocks meet here,
// without a contended lock and, where threads free what they malloc, without a cache line that
// other processors write.
//
// What one processor keeps is bounded by a share of what the heap holds; it may always keep one
// block. The share is large where blocks come and go so fast that nobody can have used them: then a
// depot's lock is what costs. A program that uses its blocks for microseconds gains more if the
// memory that it gets is still in the processor's own cache. Depots hand out the same memory again
// and again, whatever the sizes, so the share is small there.
//
// Where one thread frees what another mallocs, the blocks lie in the cache of the first one's
// processor. The other finds them there (take_elsewhere); from the depot it would get pieces of
// other sizes, until the free memory consists of pieces that nobody can use.
//
// Runs inside malloc, under no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/processor.h"
#include "allocator/pages/cpu_cache.h"
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
  static size_t table_bytes(size_t window) { return caches_of(window) * sizeof(CpuCache); }

  // A block for that many pages, or a block of no pages.
  Block take(size_t pages) {
    return take_if(pages, [](size_t) { return true; });
  }

  // The same, of those whose first page is_right(page) says yes to: of an alignment, say.
  template <typename IsRight>
  Block take_if(size_t pages, IsRight is_right) {
    return BlockClasses::has(pages) ? take_of(caches_[number_here()], pages, is_right, false)
                                    : Block{};
  }

  // The same from another processor's cache. Asks one, always the same until it has nothing, then
  // the next: so it costs little among many processors that all have nothing.
  template <typename IsRight>
  Block take_elsewhere(size_t pages, IsRight is_right) {
    const size_t used = used_.load(std::memory_order_acquire);
    if (used < 2 || !BlockClasses::has(pages)) return {};
    const size_t here = number_here();
    size_t other = caches_[here].partner();
    if (other >= used) other = 0;
    if (other == here) other = other + 1 < used ? other + 1 : 0;
    const Block block = take_of(caches_[other], pages, is_right, true);
    if (const size_t next = block.pages != 0 ? other : other + 1; next != caches_[here].partner())
      caches_[here].set_partner(next);
    return block;
  }

  // A larger block than take() would give, from the smallest class that has one: to be split.
  Block take_larger(size_t pages);

  // False: the cache did not keep the block, and the caller still has it.
  bool give(Block block) {
    if (!BlockClasses::has(block.pages)) return false;
    const size_t number = number_here();
    CpuCache& here = caches_[number];
    if (number >= used_.load(std::memory_order_relaxed) && !may_use(number)) [[unlikely]]
      return false;
    if (!here.try_lock()) return false;
    const std::atomic<size_t>& most = here.is_slow() ? most_kept_slow_ : most_kept_;
    const bool fits = here.give(block, most.load(std::memory_order_relaxed));
    here.unlock();
    return fits;
  }

  // Takes the blocks of all processors out, beginning with this processor's and with the largest,
  // and calls release(block) for each, under no lock, until it returns true.
  // `patient`: waits for whoever uses a cache, instead of passing it by.
  template <typename Release>
  void drain(bool patient, Release release) {
    const size_t used = used_.load(std::memory_order_acquire);
    const size_t here = number_here();
    for (size_t i = 0; i < used; ++i) {
      if (caches_[(here + i) % used].drain(patient, release)) return;
    }
  }

  // Bytes that they keep. Read without their locks: accurate enough for statistics.
  size_t bytes() const;

  // So many bytes are held for blocks: sets how many each processor may keep. All is taken out
  // before the heap grows.
  void set_held(size_t bytes);

  // Around fork: in the child every cache is in order and free to be used.
  void lock_all();
  void unlock_all();

 private:
  static size_t caches_of(size_t window);
  size_t number_here() const { return os::current_processor() & mask_; }
  bool may_use(size_t number);  // for the first time

  // `waits`: for a moment, for whoever uses the cache.
  template <typename IsRight>
  static Block take_of(CpuCache& cache, size_t pages, IsRight is_right, bool waits) {
    if (!cache.may_have(pages) || !(waits ? cache.lock(false) : cache.try_lock())) return {};
    const Block block = cache.take(pages, is_right);
    cache.unlock();
    return block;
  }

  CpuCache* caches_ = nullptr;             // backed only for processors that run the program
  size_t mask_ = 0;                        // of processor numbers: how many there are, less 1
  std::atomic<size_t> used_{0};            // the highest number of one that was used, plus 1
  std::atomic<bool> is_locked_{false};     // by fork
  size_t locked_ = 0;                      // how many are
  std::atomic<size_t> most_kept_{0};       // pages that each may keep
  std::atomic<size_t> most_kept_slow_{0};  // the same where blocks come and go slowly
};

}  // namespace rdmalloc
