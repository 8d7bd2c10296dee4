// Free blocks of one class of sizes, newest last. A block serves a request when it wastes an eighth
// of it at most, so a request looks into the bin of its own class and into the next one.
//
// Runs inside malloc, under its owner's lock (CpuCache). Memory that is zero is an empty bin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"

namespace rdmalloc {

// A block by its place in the window: the number of its first page, and how many it has.
struct CachedBlock {
  size_t page = 0;
  size_t pages = 0;
};

// The classes of sizes, an eighth of a doubling wide. The same for pages of any size: from 8 units
// of 4 KiB, the least that malloc's blocks have, to just below 128 MiB.
class BlockClasses {
  static constexpr size_t kUnit = 4096;
  static constexpr unsigned kLowestBit = 3;
  static constexpr unsigned kHighestBit = 14;
  static constexpr unsigned kBitsOfClass = 3;  // below the highest: eight classes in a doubling
  static constexpr size_t kInDoubling = size_t{1} << kBitsOfClass;
  static constexpr size_t kFewestUnits = size_t{1} << kLowestBit;
  static constexpr size_t kMostUnits = (size_t{2} << kHighestBit) - 1;

  static size_t units_of(size_t pages) { return pages * (os::page_size() / kUnit); }

 public:
  static constexpr size_t kCount = (kHighestBit - kLowestBit + 1) * kInDoubling;

  static bool has(size_t pages) {
    return units_of(pages) - kFewestUnits <= kMostUnits - kFewestUnits;
  }
  static size_t of(size_t pages) {
    const size_t units = units_of(pages);
    const unsigned highest = 63U - static_cast<unsigned>(__builtin_clzl(units));
    const size_t of_doubling = (units >> (highest - kBitsOfClass)) & (kInDoubling - 1);
    return size_t{highest - kLowestBit} * kInDoubling + of_doubling;
  }
};

class alignas(64) BlockBin {
 public:
  // A block for that many pages whose first page is_right(page) says yes to, or one of no pages.
  template <typename IsRight>
  CachedBlock take(size_t pages, IsRight is_right) {
    for (size_t i = count_; i-- > 0;) {
      const CachedBlock block = unpack(blocks_[i]);
      if (block.pages < pages || block.pages - pages > pages / kShareWasted) continue;
      if (!is_right(block.page)) continue;
      blocks_[i] = blocks_[count_ - 1];
      resize(count_ - 1);
      return block;
    }
    return {};
  }
  // The newest; a block of no pages if there is none.
  CachedBlock take_any() {
    if (count_ == 0) return {};
    resize(count_ - 1);
    return unpack(blocks_[count_]);
  }
  void add(CachedBlock block) {
    blocks_[count_] = pack(block);
    resize(count_ + 1);
  }
  bool is_full() const { return count_ == kMost; }
  // May be outdated when the caller reads it, without the lock.
  size_t size() const { return __atomic_load_n(&count_, __ATOMIC_RELAXED); }

 private:
  // Few bins run full or empty at that: each time one does, threads meet at a depot's lock.
  static constexpr size_t kMost = 31;
  static constexpr size_t kShareWasted = 8;  // of a request, at most
  static constexpr unsigned kPageBits = 28;

  static uint64_t pack(CachedBlock block) {
    return uint64_t{block.page} << kPageBits | block.pages;
  }
  static CachedBlock unpack(uint64_t word) {
    return {word >> kPageBits, word & ((uint64_t{1} << kPageBits) - 1)};
  }
  void resize(size_t to) { __atomic_store_n(&count_, to, __ATOMIC_RELAXED); }

  uint64_t count_;  // first: mostly in one cache line with the blocks that there are
  uint64_t blocks_[kMost];
};

}  // namespace rdmalloc
