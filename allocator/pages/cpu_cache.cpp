#include "allocator/pages/cpu_cache.h"

#include "allocator/os/clock.h"
#include "allocator/os/confinement.h"
#include "allocator/os/futex.h"
#include "allocator/os/processor.h"

namespace rdmalloc {

// A thread that loses its processor makes one slow round, so only several in a row count.
void CpuCache::end_round() {
  constexpr uint64_t kSlowNs = 4000;  // from one block to the next
  const uint64_t now = os::now_ns();
  const bool is_slow = now - round_began_ > kGivenPerRound * kSlowNs;
  if (!is_slow) {
    slow_rounds_ = 0;
  } else if (slow_rounds_ < kSlowRounds) {
    ++slow_rounds_;
  }
  given_ = 0;
  round_began_ = now;
}

CachedBlock CpuCache::take_larger(size_t pages) {
  CachedBlock block;
  for (size_t i = BlockClasses::of(pages) + 1; i < kBins && block.pages == 0; ++i) {
    block = bins_[i].take_any();
  }
  keep(kept_ - block.pages);
  return block;
}

// No pause between the tries: with one, threads that empty each other's caches get the byte so
// often that two took twice as long (bench/README.md).
bool CpuCache::lock(bool patient) {
  constexpr int kTries = 64;
  constexpr int kYields = kTries + 64;
  constexpr uint64_t kPauseNs = 50'000;
  for (int i = 0; busy_.load(std::memory_order_relaxed) != 0 || !try_lock(); ++i) {
    if (i < kTries) continue;
    if (!patient) return false;
    if (i < kYields && !os::is_confined()) {
      // The holder may be a thread that this thread's priority keeps from running.
      sched_yield();
    } else {
      os::sleep_for(kPauseNs);
    }
  }
  return true;
}

}  // namespace rdmalloc
