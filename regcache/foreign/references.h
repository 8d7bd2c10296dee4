// The number of users of each entry of a cache. Each thread counts in a place of its own, so that
// threads that use the same entries write no common cache line. Lock-free, any thread.
//
// References taken and references released are counted separately; both only grow (and wrap around
// together). The sum reads all releases first: what was released was taken before, so the sum is
// never too small, and it is exact once nobody can take any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "regcache/thread_counter.h"

namespace rdmalloc {

class References {
 public:
  constexpr References() = default;
  References(const References&) = delete;
  References& operator=(const References&) = delete;

  static constexpr size_t kCapacity = 1 << 16;  // entries

  // `memory`: zeroed, bytes() of it.
  static constexpr size_t bytes() {
    return kCapacity * ForeignHitCounter::kPlaces * sizeof(Counts);
  }
  void open(void* memory) { counts_ = static_cast<Counts*>(memory); }

  // Forgets the counts of entries below `entries`, while nobody counts.
  void clear(uint32_t entries) {
    for (uint32_t i = 0; i < ForeignHitCounter::used(); ++i) {
      for (uint32_t k = 0; k < entries; ++k) {
        at(i, k).taken.store(0, std::memory_order_relaxed);
        at(i, k).given.store(0, std::memory_order_relaxed);
      }
    }
  }

  // A full barrier: what is read after it is not older than the reference.
  void take(uint32_t place, uint32_t entry) {
    at(place, entry).taken.fetch_add(1, std::memory_order_seq_cst);
  }
  void take(uint32_t entry) { take(ForeignHitCounter::index(), entry); }

  // A full barrier, too. False: this place has given back more than it took; so the reference came
  // from another thread, or is given back twice: out() tells.
  bool give(uint32_t place, uint32_t entry) {
    Counts& counts = at(place, entry);
    const uint32_t given = counts.given.fetch_add(1, std::memory_order_seq_cst) + 1;
    return static_cast<int32_t>(counts.taken.load(std::memory_order_relaxed) - given) >= 0;
  }
  bool give(uint32_t entry) { return give(ForeignHitCounter::index(), entry); }

  // Below zero: some were given back that were never taken.
  int32_t out(uint32_t entry) const {
    const uint32_t places = ForeignHitCounter::used();
    uint32_t given = 0;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < places; ++i)
      given += at(i, entry).given.load(std::memory_order_seq_cst);
    for (uint32_t i = 0; i < places; ++i)
      taken += at(i, entry).taken.load(std::memory_order_seq_cst);
    return static_cast<int32_t>(taken - given);
  }

 private:
  struct Counts {
    std::atomic<uint32_t> taken{0};
    std::atomic<uint32_t> given{0};
  };
  Counts& at(uint32_t place, uint32_t entry) const { return counts_[place * kCapacity + entry]; }

  Counts* counts_ = nullptr;
};

}  // namespace rdmalloc
