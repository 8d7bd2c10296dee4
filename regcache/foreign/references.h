// The number of users of each entry of a cache. Each thread counts in a place of its own, so that
// threads that use the same entries write no common cache line, and enters before it first does:
// only places that were entered are summed up. Lock-free, any thread.
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
    for_each_place([&](uint32_t place) {
      for (uint32_t k = 0; k < entries; ++k) {
        at(place, k).taken.store(0, std::memory_order_relaxed);
        at(place, k).given.store(0, std::memory_order_relaxed);
      }
    });
  }

  // The thread's place.
  uint32_t enter() {
    const uint32_t place = ForeignHitCounter::index();
    if (!has_entered(place)) places_.fetch_or(uint64_t{1} << place, std::memory_order_seq_cst);
    return place;
  }
  // Sequentially consistent, because another thread with the same place may have entered it: what
  // this thread counts from now on must not seem to come before that to whoever sums up.
  bool has_entered(uint32_t place) const {
    return (places_.load(std::memory_order_seq_cst) >> place & 1) != 0;
  }

  // A full barrier: what is read after it is not older than the reference.
  void take(uint32_t place, uint32_t entry) {
    at(place, entry).taken.fetch_add(1, std::memory_order_seq_cst);
  }
  void take(uint32_t entry) { take(enter(), entry); }

  // A full barrier, too. False: this place has given back more than it took; so the reference came
  // from another thread, or is given back twice: out() tells.
  bool give(uint32_t place, uint32_t entry) {
    Counts& counts = at(place, entry);
    const uint32_t given = counts.given.fetch_add(1, std::memory_order_seq_cst) + 1;
    return static_cast<int32_t>(counts.taken.load(std::memory_order_relaxed) - given) >= 0;
  }

  // Below zero: some were given back that were never taken.
  int32_t out(uint32_t entry) const {
    uint32_t given = 0;
    uint32_t taken = 0;
    for_each_place(
        [&](uint32_t place) { given += at(place, entry).given.load(std::memory_order_seq_cst); });
    // The places are read anew: what was given may have been taken in one that is entered since.
    for_each_place(
        [&](uint32_t place) { taken += at(place, entry).taken.load(std::memory_order_seq_cst); });
    return static_cast<int32_t>(taken - given);
  }

 private:
  struct Counts {
    std::atomic<uint32_t> taken{0};
    std::atomic<uint32_t> given{0};
  };
  static_assert(ForeignHitCounter::kPlaces <= 64);

  template <typename Visit>
  void for_each_place(Visit visit) const {
    for (uint64_t left = places_.load(std::memory_order_seq_cst); left != 0; left &= left - 1) {
      visit(static_cast<uint32_t>(__builtin_ctzl(left)));
    }
  }
  Counts& at(uint32_t place, uint32_t entry) const { return counts_[place * kCapacity + entry]; }

  Counts* counts_ = nullptr;
  std::atomic<uint64_t> places_{0};  // entered: a bit each
};

}  // namespace rdmalloc
