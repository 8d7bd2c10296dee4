// Which entry was last found to cover a page: a guess, as a processor's translation buffer makes
// one, so that a hit needs neither the index nor its lock. Whoever asks checks what the entry says
// now, so that a guess may be old, torn or missing. Lock-free, any thread.
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

  // False when there is no memory; keeps what it has.
  bool open() {
    if (is_open()) return true;
    void* const memory = os::map_metadata(kSets * sizeof(Set));
    sets_.store(static_cast<Set*>(memory), std::memory_order_release);
    return memory != nullptr;
  }
  // What was written before open() can be read when this says so.
  bool is_open() const { return sets_.load(std::memory_order_acquire) != nullptr; }

  // The first guess for the page of `address` that `is_right` accepts; kNone. Open.
  template <class Check>
  uint32_t find(uintptr_t address, Check is_right) const {
    const uint64_t hash = hash_of(address);
    const Set& set = sets()[hash >> kSetShift];
    const uint32_t tag = tag_of(hash);
    for (const std::atomic<uint32_t>& way : set.ways) {
      const uint32_t guess = way.load(std::memory_order_relaxed) ^ tag;
      // Entries are counted from one, so that an empty way is no guess.
      if (guess - 1 < kMostEntries && is_right(guess - 1)) return guess - 1;
    }
    return kNone;
  }

  void note(uintptr_t address, uint32_t entry) {
    const uint64_t hash = hash_of(address);
    Set& set = sets()[hash >> kSetShift];
    const uint32_t tag = tag_of(hash);
    size_t chosen = entry % kWays;
    for (size_t i = kWays; i-- > 0;) {
      const uint32_t way = set.ways[i].load(std::memory_order_relaxed);
      if (way == 0) chosen = i;
    }
    for (size_t i = 0; i < kWays; ++i) {
      const uint32_t guess = set.ways[i].load(std::memory_order_relaxed) ^ tag;
      if (guess - 1 < kMostEntries) chosen = i;
    }
    set.ways[chosen].store(tag ^ (entry + 1), std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kWays = 4;
  static constexpr size_t kSets = 1 << 15;
  static constexpr int kSetShift = 64 - 15;
  static constexpr uint32_t kMostEntries = 65535;
  static constexpr int kPageShift = 12;
  struct alignas(16) Set {
    std::atomic<uint32_t> ways[kWays];
  };

  static uint64_t hash_of(uintptr_t address) {
    return (uint64_t{address} >> kPageShift) * 0x9e3779b97f4a7c15u;
  }
  // In the upper half of a way.
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 16) & 0xffff0000u; }

  Set* sets() const { return sets_.load(std::memory_order_relaxed); }

  std::atomic<Set*> sets_{nullptr};
};

}  // namespace rdmalloc
