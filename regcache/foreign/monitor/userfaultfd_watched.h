// What the userfaultfd monitor watches: about how many ranges, and where any ever was. Lock-free,
// any thread, also inside malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rdmalloc {

class UserfaultfdWatched {
 public:
  // Ranges, about.
  bool has_room() const { return count_.load(std::memory_order_relaxed) < kMost; }
  void count_in() { count_.fetch_add(1, std::memory_order_relaxed); }
  void count_out() { count_.fetch_sub(1, std::memory_order_relaxed); }
  void count_out_if_any() {
    if (count_.load(std::memory_order_relaxed) > 0) count_out();
  }

  void note(uintptr_t base, size_t length);
  // False: nothing of the range was ever watched.
  bool may_have_been(uintptr_t base, size_t length) const;

 private:
  // Each watched range may split a mapping in three, and the kernel limits the number of mappings
  // (65530).
  static constexpr int kMost = 16384;
  static constexpr unsigned kGranuleShift = 16;
  static constexpr size_t kBits = 1 << 16;

  std::atomic<int> count_{0};
  std::atomic<uint64_t> ever_[kBits / 64] = {};  // by granule
};

}  // namespace rdmalloc
