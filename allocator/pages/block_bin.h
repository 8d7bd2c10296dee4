// Free blocks of one class of sizes. A block serves a request when it wastes an eighth of it at
// most, so a request looks into the bin of its own class and into the next one.
//
// Whoever looks may see an old state, and then makes a change of what it saw, which its owner's
// lock carries out or not (os/processor_lock.h). Runs inside malloc. Memory that is zero is an
// empty bin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/cache_line.h"
#include "allocator/os/memory.h"
#include "allocator/os/processor_lock.h"

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
  static constexpr size_t kInDoubling = size_t{1} << kLowestBit;
  static constexpr size_t kFewestUnits = size_t{1} << kLowestBit;
  static constexpr size_t kMostUnits = (size_t{2} << kHighestBit) - 1;

  static size_t units_of(size_t pages) { return pages * (os::page_size() / kUnit); }
  static constexpr size_t of_units(size_t units) {
    const unsigned doubling = 63U - kLowestBit - static_cast<unsigned>(__builtin_clzl(units));
    return doubling * kInDoubling + (units >> doubling) - kInDoubling;
  }

  // Those of blocks below 4 MiB: a free waits for its class before it can do anything else.
  static constexpr size_t kInTable = 1024;
  struct Table {
    uint8_t of[kInTable];
  };
  static constexpr Table make_table() {
    Table made{};
    for (size_t units = kFewestUnits; units < kInTable; ++units) {
      made.of[units] = static_cast<uint8_t>(of_units(units));
    }
    return made;
  }
  static const Table kTable;

 public:
  static constexpr size_t kCount = (kHighestBit - kLowestBit + 1) * kInDoubling;

  static bool has(size_t pages) {
    return units_of(pages) - kFewestUnits <= kMostUnits - kFewestUnits;
  }
  static size_t of(size_t pages) {
    const size_t units = units_of(pages);
    return units < kInTable ? kTable.of[units] : of_units(units);
  }
};
inline constexpr BlockClasses::Table BlockClasses::kTable = BlockClasses::make_table();

template <unsigned kMost>
class alignas(os::kCacheLine) BlockBin {
 public:
  static_assert(kMost < 32);

  // A block that was seen in the bin, or a place for one.
  struct Place {
    uint32_t taken = 0;      // as it was then
    uint32_t taken_new = 0;  // with or without it
    unsigned slot = kMost;
    CachedBlock block;
    bool is_none() const { return slot == kMost; }
  };

  // A block for that many pages whose first page is_right(page) says yes to. Beginning with the
  // newest, mostly.
  template <typename IsRight>
  [[gnu::always_inline]] Place find(size_t pages, IsRight is_right) const {
    const uint32_t taken = __atomic_load_n(&taken_, __ATOMIC_RELAXED);
    for (uint32_t left = taken; left != 0; left &= left - 1) {
      const unsigned slot = lowest(left);
      const CachedBlock block = unpack(__atomic_load_n(&blocks_[slot], __ATOMIC_RELAXED));
      if (block.pages >= pages && block.pages - pages <= pages / kShareWasted &&
          is_right(block.page)) {
        return {taken, taken ^ (left & (0 - left)), slot, block};
      }
    }
    return {};
  }
  // Any one.
  Place find_any() const {
    const uint32_t taken = __atomic_load_n(&taken_, __ATOMIC_RELAXED);
    if (taken == 0) return {};
    const unsigned slot = lowest(taken);
    return {taken, taken & (taken - 1), slot,
            unpack(__atomic_load_n(&blocks_[slot], __ATOMIC_RELAXED))};
  }
  // Where the block is the newest, or, if that is not possible, where there is room.
  [[gnu::always_inline]] Place place_for(CachedBlock block) const {
    const uint32_t taken = __atomic_load_n(&taken_, __ATOMIC_RELAXED);
    const uint32_t newest = taken | bit(kMost);
    uint32_t place = (newest & (0 - newest)) >> 1;
    if (place == 0) [[unlikely]]
      place = ~taken & (taken + 1);
    return {taken, taken | place, lowest(place), block};
  }

  // Takes the block out, or puts it in. By whoever keeps others out.
  void take(const Place& place) { mark(place.taken_new); }
  void add(const Place& place) {
    __atomic_store_n(&blocks_[place.slot], pack(place.block), __ATOMIC_RELAXED);
    mark(place.taken_new);
  }
  // The same, if nothing has changed meanwhile. One block and its pages are added to the total.
  [[gnu::always_inline]] os::Change taking(const Place& place) {
    return {&taken_,           place.taken, place.taken_new,     &blocks_[place.slot],
            pack(place.block), false,       -amount(place.block)};
  }
  [[gnu::always_inline]] os::Change adding(const Place& place) {
    return {&taken_,           place.taken, place.taken_new,    &blocks_[place.slot],
            pack(place.block), true,        amount(place.block)};
  }
  // What adding them has added to it. Nobody changes the bin meanwhile.
  ptrdiff_t total() const {
    ptrdiff_t sum = 0;
    for (uint32_t left = taken_; left != 0; left &= left - 1) {
      sum += amount(unpack(blocks_[lowest(left)]));
    }
    return sum;
  }
  // What a total of such amounts says.
  static ptrdiff_t pages_of(ptrdiff_t total) {
    return static_cast<ptrdiff_t>(static_cast<size_t>(total) << kTotalBits) >> kTotalBits;
  }
  static ptrdiff_t blocks_of(ptrdiff_t total) {
    return (total - pages_of(total)) >> (64 - kTotalBits);
  }

  // May be outdated when the caller reads it, without the lock.
  bool is_empty() const { return __atomic_load_n(&taken_, __ATOMIC_RELAXED) == 0; }

 private:
  static constexpr size_t kShareWasted = 8;  // of a request, at most
  static constexpr unsigned kPageBits = 28;
  static constexpr unsigned kTotalBits = 24;  // for the number of blocks

  static ptrdiff_t amount(CachedBlock block) {
    return static_cast<ptrdiff_t>(size_t{1} << (64 - kTotalBits) | block.pages);
  }
  static uint64_t pack(CachedBlock block) {
    return uint64_t{block.page} << kPageBits | block.pages;
  }
  static CachedBlock unpack(uint64_t word) {
    return {word >> kPageBits, word & ((uint64_t{1} << kPageBits) - 1)};
  }
  static unsigned lowest(uint32_t taken) { return static_cast<unsigned>(__builtin_ctz(taken)); }
  static uint32_t bit(unsigned slot) { return uint32_t{1} << slot; }
  void mark(uint32_t taken) { __atomic_store_n(&taken_, taken, __ATOMIC_RELAXED); }

  // Filled from the last slot on: mostly in one cache line with the word that says which are taken.
  uint64_t blocks_[kMost];
  uint32_t taken_;
};

}  // namespace rdmalloc
