// What one processor keeps of the blocks that were freed on it. Its own threads put them in and
// take them out by restartable sequences where there are any, and whoever empties it by its lock
// (os/processor_lock.h), which is tried: only fork, and whoever empties caches before ENOMEM, wait.
//
// Also knows how fast blocks come and go, and whether those freed here are malloced elsewhere
// (CpuCaches).
//
// Runs inside malloc. Memory that is zero is an empty cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"
#include "allocator/os/processor_lock.h"
#include "allocator/pages/block_bin.h"

namespace rdmalloc {

// Of an attempt to change a cache.
enum class Attempt : uint8_t { kDone, kImpossible, kInterrupted };

class alignas(os::kCacheLine) CpuCache {
 public:
  // How its blocks have been used in the last rounds: they come and go at once, slowly, or most of
  // those that are freed here are malloced elsewhere.
  enum Use : uint32_t { kFast, kSlow, kHandedOn, kUses };

  os::ProcessorLock& lock() { return lock_; }

  // As many as fill a cache line with their bin.
  static constexpr unsigned kInBin = 31;
  using Bin = BlockBin<kInBin>;

  // By a thread of the processor with that number: a block for so many pages whose first page
  // is_right(page) says yes to. change(change) carries a change out, or not.
  template <typename IsRight, typename Carry>
  [[gnu::always_inline]] Attempt take(size_t pages, IsRight is_right, CachedBlock& block,
                                      Carry carry) {
    Bin* bin = &bins_[BlockClasses::of(pages)];
    Bin::Place place = bin->find(pages, is_right);
    if (place.is_none()) place = (++bin)->find(pages, is_right);
    if (place.is_none()) return Attempt::kImpossible;
    block = place.block;
    return carry(bin->taking(place)) ? Attempt::kDone : Attempt::kInterrupted;
  }
  // A larger one, from the smallest class that has one.
  Attempt take_larger(size_t processor, size_t pages, CachedBlock& block);
  // What it would take, or a block of no pages.
  CachedBlock find_larger(size_t pages) const { return larger(pages).place.block; }

  // Impossible: its bin is full, or the cache would have more than about `most` pages. It may
  // always have one block.
  template <typename Carry>
  [[gnu::always_inline]] Attempt give(CachedBlock block, size_t most, Carry carry) {
    const ptrdiff_t kept = Bin::pages_of(lock_.total());
    if (kept + static_cast<ptrdiff_t>(block.pages) > static_cast<ptrdiff_t>(most) && kept > 0) {
      return Attempt::kImpossible;
    }
    Bin& bin = bins_[BlockClasses::of(block.pages)];
    const Bin::Place place = bin.place_for(block);
    if (place.is_none()) return Attempt::kImpossible;
    return carry(bin.adding(place)) ? Attempt::kDone : Attempt::kInterrupted;
  }

  // A thread of this processor frees a block. Threads that do so at once may be counted as one.
  void note_free() {
    const uint32_t frees = load(frees_) + 1;
    store(frees_, frees);
    if (frees >= kFreesPerRound) [[unlikely]]
      end_round();
  }
  // It mallocs one, which is not in the cache.
  void note_miss() { store(misses_, load(misses_) + 1); }
  // A block was freed here, but not kept.
  void note_elsewhere() { store(elsewhere_, load(elsewhere_) + 1); }
  Use use() const { return static_cast<Use>(load(use_)); }
  bool is_slow() const { return load(slow_rounds_) == kSlowRounds; }

  // In a child of fork, which has none of the threads that had closed the lock or were changing it,
  // except the one that forked and has locked it.
  void note_fork_child();

  // Takes block after block out, largest first, and calls release(block) without the lock. Stops at
  // what it has now: others may go on filling it. True: release() said that it is enough.
  // `is_own`: by a thread of the processor with that number.
  template <typename Release>
  bool drain(size_t processor, bool is_own, bool patient, Release& release) {
    if (kept() == 0 && !patient) return false;
    const bool closes = !is_own || patient;
    if (closes) lock_.close(processor);
    bool is_enough = false;
    for (size_t i = kBins; i-- > 0 && !is_enough;) {
      for (unsigned left = kInBin; left > 0 && !is_enough; --left) {
        const CachedBlock block =
            closes ? take_any(bins_[i], patient) : take_own(processor, bins_[i]);
        if (block.pages == 0) break;
        is_enough = release(block);
      }
    }
    if (closes) lock_.open();
    return is_enough;
  }

  // Pages. May be outdated when the caller reads it.
  size_t kept() const {
    const ptrdiff_t kept = Bin::pages_of(lock_.total());
    return kept < 0 ? 0 : static_cast<size_t>(kept);
  }

 private:
  struct Found {
    size_t bin = 0;
    Bin::Place place;
  };

  static constexpr size_t kBins = BlockClasses::kCount + 1;  // the last one stays empty
  static constexpr uint32_t kFreesPerRound = 64;
  static constexpr ptrdiff_t kFewMallocs = kFreesPerRound / 4;
  static constexpr uint32_t kSlowRounds = 4;

  static uint32_t load(const uint32_t& of) { return __atomic_load_n(&of, __ATOMIC_RELAXED); }
  static void store(uint32_t& to, uint32_t value) {
    __atomic_store_n(&to, value, __ATOMIC_RELAXED);
  }
  void end_round();
  Found larger(size_t pages) const;
  CachedBlock take_any(Bin& bin, bool patient);
  CachedBlock take_own(size_t processor, Bin& bin);

  os::ProcessorLock lock_;
  uint32_t frees_;        // in this round
  uint32_t misses_;       // the same
  uint32_t elsewhere_;    // the same
  uint32_t use_;          // a Use
  uint32_t slow_rounds_;  // in a row, kSlowRounds at most
  uint64_t round_began_;  // ns
  ptrdiff_t total_then_;
  Bin bins_[kBins];
};

}  // namespace rdmalloc
