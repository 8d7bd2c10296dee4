// Recently freed blocks, by processor and size: most frees and mallocs of large blocks meet here,
// without a contended lock and without a cache line that other processors write.
//
// A bin holds the blocks of one size class, an eighth of a doubling wide, newest last. A block
// serves a request when it wastes an eighth of it at most: so a request looks at the bin of its own
// class and the next one. What one processor keeps is bounded by a share of what the heap holds; it
// may always keep one block.
//
// The share is large where blocks come and go so fast that nobody can have used them: then a
// depot's lock is what costs. A program that uses its blocks for microseconds gains more if the
// memory that it gets is still in the processor's own cache. Depots hand out the same memory again
// and again, whatever the sizes, so the share is small there.
//
// A processor's bins are guarded by a byte that is only ever tried: its holder may have been
// preempted, so a thread that finds it taken goes to the depot instead. Runs inside malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"
#include "allocator/os/processor.h"
#include "allocator/status.h"

namespace rdmalloc {

class CpuCaches {
 public:
  // A block by its place in the window: the number of its first page, and how many it has.
  struct Block {
    size_t page = 0;
    size_t pages = 0;
  };

  constexpr CpuCaches() = default;
  CpuCaches(const CpuCaches&) = delete;
  CpuCaches& operator=(const CpuCaches&) = delete;

  // Takes a small share of as many addresses as the window has: where these are few, several
  // processors have one cache.
  Status boot(size_t window);
  // What boot() will map.
  static size_t table_bytes(size_t window) { return caches_of(window) * sizeof(Processor); }

  // A block for that many pages, or a block of no pages.
  Block take(size_t pages) {
    return take_if(pages, [](size_t) { return true; });
  }

  // The same, of those whose first page is_right(page) says yes to: of an alignment, say.
  template <typename IsRight>
  Block take_if(size_t pages, IsRight is_right) {
    if (!has_bin(pages)) return {};
    Processor& here = processors_[os::current_processor() & mask_];
    const size_t bin = bin_of(pages);
    // Read without the lock: a thread that wrongly sees an empty bin takes the slow path once.
    if ((here.bins[bin].size() | here.bins[bin + 1].size()) == 0 || !here.try_lock()) return {};
    Block block = here.bins[bin].take(pages, is_right);
    if (block.pages == 0) block = here.bins[bin + 1].take(pages, is_right);
    here.keep(here.kept - block.pages);
    here.unlock();
    return block;
  }

  // A larger block than take() would give, from the smallest class that has one: to be split.
  Block take_larger(size_t pages);

  // False: the cache did not keep the block, and the caller still has it.
  bool give(Block block) {
    if (!has_bin(block.pages)) return false;
    Processor& here = processors_[os::current_processor() & mask_];
    if (!here.try_lock()) return false;
    Bin& bin = here.bins[bin_of(block.pages)];
    const size_t kept = here.kept + block.pages;
    const bool fits = bin.count < Bin::kMost && (kept <= most_kept(here) || here.kept == 0);
    if (++here.given == kGivenPerRound) [[unlikely]]
      end_round(here);
    if (fits) {
      bin.add(block);
      here.keep(kept);
      if (here.was_used == 0) [[unlikely]]
        note_use(here);
    }
    here.unlock();
    return fits;
  }

  // Takes the blocks of all processors out, beginning with this processor's and with the largest,
  // and calls release(block) for each, under no lock, until it returns true.
  // `patient`: waits for the holders of bins, instead of passing them by.
  template <typename Release>
  void drain(bool patient, Release release) {
    const size_t used = used_.load(std::memory_order_acquire);
    const size_t here = os::current_processor() & mask_;
    for (size_t i = 0; i < used; ++i) {
      if (drain_one(processors_[(here + i) % used], patient, release)) return;
    }
  }

  // Bytes that they keep. Read without their locks: accurate enough for statistics.
  size_t bytes() const;

  // So many bytes are held for blocks. Each processor may keep half of it, or a twelfth: all is
  // taken out before the heap grows.
  void set_held(size_t bytes);

  // Around fork: in the child every bin is in order and free to be used.
  void lock_all();
  void unlock_all();

 private:
  struct alignas(64) Bin {
    // Few bins run full or empty at that: each time one does, threads meet at a depot's lock.
    static constexpr size_t kMost = 31;
    uint64_t count;  // first: mostly in one cache line with the blocks that there are
    uint64_t blocks[kMost];

    template <typename IsRight>
    Block take(size_t pages, IsRight is_right) {
      for (size_t i = count; i-- > 0;) {
        const Block block = unpack(blocks[i]);
        if (block.pages < pages || block.pages - pages > pages / 8) continue;
        if (!is_right(block.page)) continue;
        blocks[i] = blocks[count - 1];
        resize(count - 1);
        return block;
      }
      return {};
    }
    Block take_newest() {
      resize(count - 1);
      return unpack(blocks[count]);
    }
    void add(Block block) {
      blocks[count] = pack(block);
      resize(count + 1);
    }
    void resize(size_t to) { __atomic_store_n(&count, to, __ATOMIC_RELAXED); }
    size_t size() const { return __atomic_load_n(&count, __ATOMIC_RELAXED); }  // without the lock
  };

  static constexpr size_t kMostProcessors = os::kMostProcessors;
  static_assert((kMostProcessors & (kMostProcessors - 1)) == 0);
  static constexpr size_t kShareOfWindow = 64;
  static constexpr unsigned kPageBits = 28;
  // The classes are the same for pages of any size: from 8 units of 4 KiB, the least that malloc's
  // blocks have, to 64 MiB. One extra bin stays empty.
  static constexpr size_t kUnit = 4096;
  static constexpr unsigned kLowestBit = 3;
  static constexpr unsigned kHighestBit = 14;
  static constexpr size_t kFewestUnits = size_t{1} << kLowestBit;
  static constexpr size_t kMostUnits = (size_t{2} << kHighestBit) - 1;
  static constexpr size_t kBins = (kHighestBit - kLowestBit + 1) * 8 + 1;
  static constexpr size_t kLeastKept = size_t{16} << 20;  // bytes
  static constexpr uint32_t kGivenPerRound = 64;
  static constexpr uint8_t kSlowRounds = 4;

  struct alignas(64) Processor {
    std::atomic<uint8_t> busy;
    uint8_t was_used;
    uint8_t slow_rounds;   // in a row, kSlowRounds at most
    uint32_t given;        // blocks, in this round
    uint64_t round_began;  // ns
    size_t kept;           // pages
    Bin bins[kBins];

    bool is_locked() const { return busy.load(std::memory_order_relaxed) != 0; }
    bool try_lock() { return busy.exchange(1, std::memory_order_acquire) == 0; }
    void unlock() { busy.store(0, std::memory_order_release); }
    void keep(size_t pages) { __atomic_store_n(&kept, pages, __ATOMIC_RELAXED); }
  };

  static size_t caches_of(size_t window);
  static size_t units_of(size_t pages) { return pages * (os::page_size() / kUnit); }
  static bool has_bin(size_t pages) {
    return units_of(pages) - kFewestUnits <= kMostUnits - kFewestUnits;
  }
  static size_t bin_of(size_t pages) {
    const size_t units = units_of(pages);
    const unsigned highest = 63U - static_cast<unsigned>(__builtin_clzl(units));
    return size_t{highest - kLowestBit} * 8 + ((units >> (highest - 3)) & 7);
  }
  static uint64_t pack(Block block) { return uint64_t{block.page} << kPageBits | block.pages; }
  static Block unpack(uint64_t word) {
    return {word >> kPageBits, word & ((uint64_t{1} << kPageBits) - 1)};
  }

  void note_use(Processor& processor);
  static void end_round(Processor& processor);
  size_t most_kept(const Processor& processor) const {
    const bool is_slow = processor.slow_rounds == kSlowRounds;
    return (is_slow ? most_kept_slow_ : most_kept_).load(std::memory_order_relaxed);
  }
  static bool lock(Processor& processor, bool patient);

  // True: release() said that it is enough.
  template <typename Release>
  static bool drain_one(Processor& processor, bool patient, Release& release) {
    if (__atomic_load_n(&processor.kept, __ATOMIC_RELAXED) == 0) return false;
    for (size_t i = kBins; i-- > 0;) {
      Bin& bin = processor.bins[i];
      // No more than it has now: others may go on filling it.
      for (size_t left = bin.size(); left > 0; --left) {
        if (!lock(processor, patient)) return false;
        Block block;
        if (bin.count != 0) block = bin.take_newest();
        processor.keep(processor.kept - block.pages);
        processor.unlock();
        if (block.pages != 0 && release(block)) return true;
      }
    }
    return false;
  }

  Processor* processors_ = nullptr;        // backed only for processors that run the program
  size_t mask_ = 0;                        // of processor numbers: how many there are, less 1
  std::atomic<size_t> used_{0};            // the highest number of one that was used, plus 1
  size_t locked_ = 0;                      // by fork
  std::atomic<size_t> most_kept_{0};       // pages that each may keep
  std::atomic<size_t> most_kept_slow_{0};  // the same in slow rounds
};

}  // namespace rdmalloc
