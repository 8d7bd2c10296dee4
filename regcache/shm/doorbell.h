#pragma once

#include <stdint.h>

#include <atomic>

namespace rdmalloc::shm {

// Where a process of a segment sleeps: two words in shared memory, on a cache line of their own.
//
// Processes that ring are on the fast path: they store what the sleeper waits for, and then only
// check whether anybody sleeps. The processor may reorder the store and the check. The sleeper,
// which has time, prevents that with a memory barrier in all processes (membarrier). If the kernel
// refuses the barrier, a ring may be missed, and sleeps are short.
class Doorbell {
 public:
  struct Words {
    std::atomic<uint32_t> rings;
    std::atomic<uint32_t> sleepers;
  };

  // Call once in each process, before it rings or sleeps.
  static void set_up();

  explicit Doorbell(Words* words) : words_(words) {}

  void ring() {
    // Keeps the compiler from moving the caller's store past the check.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (words_->sleepers.load(std::memory_order_relaxed) != 0) wake();
  }

  // enter() announces a sleeper: until leave(), every ring is heard. sleep() takes the result of
  // enter() and returns after at most `ns`, or at once if there was a ring since enter().
  uint32_t enter();
  void sleep(uint32_t ticket, uint64_t ns);
  void leave() { words_->sleepers.fetch_sub(1, std::memory_order_relaxed); }

 private:
  void wake();

  Words* words_;
};

}  // namespace rdmalloc::shm
