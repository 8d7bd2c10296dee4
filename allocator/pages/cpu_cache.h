// What one processor keeps of the blocks that were freed on it, and the byte that guards them.
// Its holder may have been preempted. So a thread of this processor that finds the byte taken goes
// elsewhere at once, and one of another processor after a moment; only fork, and whoever empties
// caches before ENOMEM, wait for it.
//
// Also knows how fast blocks come and go, which decides how much may be kept (CpuCaches).
//
// Runs inside malloc. Everything but the byte, kept(), may_have() and partner() is used under the
// byte. Memory that is zero is an empty cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/block_bin.h"

namespace rdmalloc {

class alignas(64) CpuCache {
 public:
  bool try_lock() { return busy_.exchange(1, std::memory_order_acquire) == 0; }
  // Waits for a moment, which is enough for a holder that runs; `patient`: as long as it takes.
  bool lock(bool patient);
  void unlock() { busy_.store(0, std::memory_order_release); }

  // False: take() would find nothing. A thread that sees an old state takes the slow path once.
  bool may_have(size_t pages) const {
    const size_t bin = BlockClasses::of(pages);
    return (bins_[bin].size() | bins_[bin + 1].size()) != 0;
  }

  // A block for that many pages whose first page is_right(page) says yes to, or one of no pages.
  template <typename IsRight>
  CachedBlock take(size_t pages, IsRight is_right) {
    const size_t bin = BlockClasses::of(pages);
    CachedBlock block = bins_[bin].take(pages, is_right);
    if (block.pages == 0) block = bins_[bin + 1].take(pages, is_right);
    keep(kept_ - block.pages);
    return block;
  }

  // A larger one, from the smallest class that has one.
  CachedBlock take_larger(size_t pages);

  // False: not kept, because its bin is full, or because the cache would have more than `most`
  // pages. It may always have one block.
  bool give(CachedBlock block, size_t most) {
    BlockBin& bin = bins_[BlockClasses::of(block.pages)];
    const size_t kept = kept_ + block.pages;
    const bool fits = !bin.is_full() && (kept <= most || kept_ == 0);
    if (++given_ == kGivenPerRound) [[unlikely]]
      end_round();
    if (!fits) return false;
    bin.add(block);
    keep(kept);
    return true;
  }

  // Blocks have come and gone slowly for some rounds.
  bool is_slow() const { return slow_rounds_ == kSlowRounds; }

  // Takes the byte for each block, calls release(block) without it, largest blocks first, and stops
  // at what it has now: others may go on filling it. True: release() said that it is enough.
  template <typename Release>
  bool drain(bool patient, Release& release) {
    if (kept() == 0) return false;
    for (size_t i = kBins; i-- > 0;) {
      BlockBin& bin = bins_[i];
      for (size_t left = bin.size(); left > 0; --left) {
        if (!lock(patient)) return false;
        const CachedBlock block = bin.take_any();
        keep(kept_ - block.pages);
        unlock();
        if (block.pages != 0 && release(block)) return true;
      }
    }
    return false;
  }

  // Pages. May be outdated when the caller reads it, without the byte.
  size_t kept() const { return __atomic_load_n(&kept_, __ATOMIC_RELAXED); }

  // The number of the processor whose cache is asked when this one has nothing. Without the byte.
  size_t partner() const { return __atomic_load_n(&partner_, __ATOMIC_RELAXED); }
  void set_partner(size_t number) {
    __atomic_store_n(&partner_, static_cast<uint32_t>(number), __ATOMIC_RELAXED);
  }

 private:
  static constexpr size_t kBins = BlockClasses::kCount + 1;  // the last one stays empty
  static constexpr uint32_t kGivenPerRound = 64;
  static constexpr uint8_t kSlowRounds = 4;

  void keep(size_t pages) { __atomic_store_n(&kept_, pages, __ATOMIC_RELAXED); }
  void end_round();

  std::atomic<uint8_t> busy_;
  uint8_t slow_rounds_;  // in a row, kSlowRounds at most
  uint32_t given_;       // blocks, in this round
  uint32_t partner_;
  uint64_t round_began_;  // ns
  size_t kept_;           // pages
  BlockBin bins_[kBins];
};

}  // namespace rdmalloc
