// Freed blocks that all processors share: those that did not fit in the cache of the processor that
// freed them, and those that it hands on (CpuCaches). Each bin has a byte of its own, so threads
// that exchange blocks of different sizes do not meet.
//
// A byte is tried for a moment, which is enough for a holder that runs; only fork, and whoever
// empties caches before ENOMEM, wait for it. Runs inside malloc. Memory that is zero is empty bins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/block_bin.h"

namespace rdmalloc {

class SharedBins {
 public:
  // A block for that many pages whose first page is_right(page) says yes to, or one of no pages.
  template <typename IsRight>
  CachedBlock take(size_t pages, IsRight is_right) {
    const size_t first = BlockClasses::of(pages);
    for (size_t i = first; i <= first + 1; ++i) {
      const CachedBlock block =
          take_from(bins_[i], false, [&](const Blocks& bin) { return bin.find(pages, is_right); });
      if (block.pages != 0) return block;
    }
    return {};
  }

  // False: there is no room, or there would be more than `most` pages. There may always be one
  // block.
  bool give(CachedBlock block, size_t most);

  // Takes block after block out, largest first, and calls release(block) without a byte. True:
  // release() said that it is enough.
  template <typename Release>
  bool drain(bool patient, Release& release) {
    if (sum() <= 0 && !patient) return false;
    for (size_t i = kBins; i-- > 0;) {
      for (unsigned left = kInBin; left > 0; --left) {
        const CachedBlock block =
            take_from(bins_[i], patient, [](const Blocks& bin) { return bin.find_any(); });
        if (block.pages == 0) break;
        if (release(block)) return true;
      }
    }
    return false;
  }

  // Pages. Reads every bin.
  size_t kept() const;

  // Around fork.
  void lock_all();
  void unlock_all();

 private:
  // Few bins run full or empty at that: each time one does, threads meet at a depot's lock.
  static constexpr unsigned kInBin = 31;
  using Blocks = BlockBin<kInBin>;
  static constexpr size_t kBins = BlockClasses::kCount + 1;  // the last one stays empty

  struct Bin {
    bool lock(bool patient);
    void unlock() { taken.store(0, std::memory_order_release); }

    Blocks bin;
    std::atomic<uint8_t> taken;
    std::atomic<ptrdiff_t> apart;  // pages that the sum lacks; written by who has the byte
  };

  template <typename Find>
  CachedBlock take_from(Bin& from, bool patient, Find find) {
    if (from.bin.is_empty() || !from.lock(patient)) return {};
    const Blocks::Place place = find(from.bin);
    if (!place.is_none()) {
      from.bin.take(place);
      note(from, -static_cast<ptrdiff_t>(place.block.pages));
    }
    from.unlock();
    return place.block;
  }

  // By who has the bin's byte: so many pages came, or went.
  void note(Bin& bin, ptrdiff_t pages);
  ptrdiff_t sum() const { return sum_.load(std::memory_order_relaxed); }

  // Of the pages in all bins. If each block changed it, it would go from processor to processor
  // with them, so bins keep small changes apart.
  std::atomic<ptrdiff_t> sum_;
  Bin bins_[kBins];
};

}  // namespace rdmalloc
