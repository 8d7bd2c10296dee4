// Which entry was last found to cover a page: a guess, like those of a processor's translation
// buffer, so that a hit needs neither the index nor its lock. The caller checks what the entry says
// now, so a guess may be old, torn or missing. Lock-free, any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/memory.h"

namespace rdmalloc {

class PageMemo {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  constexpr PageMemo() = default;
  PageMemo(const PageMemo&) = delete;
  PageMemo& operator=(const PageMemo&) = delete;

  // False: there is no memory. Opening again keeps the contents.
  bool open() {
    if (is_open()) return true;
    void* const memory = os::map_metadata(kSets * sizeof(Set));
    sets_.store(static_cast<Set*>(memory), std::memory_order_release);
    return memory != nullptr;
  }
  // True: what was written before open() can be read.
  bool is_open() const { return sets_.load(std::memory_order_acquire) != nullptr; }

  // The first guess for the page of `address`, or kNone. May be wrong: entries change, and a tag is
  // only part of the address. The memo must be open.
  uint32_t find(uintptr_t address) const {
    const uint64_t hash = hash_of(address);
    const Set& set = set_of(address, hash);
    const uint32_t tag = tag_of(hash);
    for (const std::atomic<uint32_t>& way : set.ways) {
      // Entries are counted from one, so that an empty way is no guess.
      const uint32_t guess = (way.load(std::memory_order_relaxed) ^ tag) - 1;
      if (guess < kMostEntries) [[likely]]
        return guess;
    }
    return kNone;
  }

  // Replaces the guess that find() would make, so that it is right the next time.
  void note(uintptr_t address, uint32_t entry) {
    const uint64_t hash = hash_of(address);
    Set& set = set_of(address, hash);
    const uint32_t tag = tag_of(hash);
    size_t chosen = kWays;
    size_t empty = entry % kWays;
    for (size_t i = kWays; i-- > 0;) {
      const uint32_t way = set.ways[i].load(std::memory_order_relaxed);
      if (way == 0) empty = i;
      if ((way ^ tag) - 1 < kMostEntries) chosen = i;
    }
    if (chosen == kWays) chosen = empty;
    set.ways[chosen].store(tag ^ (entry + 1), std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kWays = 4;
  static constexpr size_t kSets = 1 << 15;
  static constexpr int kSetShift = 64 - 15;
  static constexpr uint32_t kMostEntries = 65535;
  struct alignas(16) Set {
    std::atomic<uint32_t> ways[kWays];
  };

  // The sets of pages that follow each other lie in one page, and next to each other in groups of
  // four: a program that goes on to the next buffer finds them in the processor's caches.
  static constexpr int kNearBits = 8;
  static constexpr uint64_t kNearPages = 1 << kNearBits;

  static uint64_t hash_of(uintptr_t address) {
    return (uint64_t{address} >> (os::page_shift() + kNearBits)) * 0x9e3779b97f4a7c15u;
  }
  Set& set_of(uintptr_t address, uint64_t hash) const {
    return sets()[(hash >> kSetShift) ^ (address >> os::page_shift() & (kNearPages - 1))];
  }
  // In the upper half of a way. Pages of one set differ in what is hashed.
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 16) & 0xffff0000u; }

  Set* sets() const { return sets_.load(std::memory_order_relaxed); }

  std::atomic<Set*> sets_{nullptr};
};

}  // namespace rdmalloc
