#pragma once

#include <stdint.h>

#include <atomic>

namespace rdmalloc::shm {

// What a process of a segment sleeps at; in shared memory, two words on a line of their own.
//
// Those who ring are on the fast path: they store what the sleeper waits for, and then only look
// whether anybody waits. That store and that look may be reordered by the processor; it is the
// sleeper, who has time, that rules it out, by a memory barrier in all processes (membarrier).
// Where the kernel refuses one, a ring may be missed, and sleep is short.
class Doorbell {
 public:
  struct Words {
    std::atomic<uint32_t> rings;
    std::atomic<uint32_t> sleepers;
  };

  // Once in each process, before it rings or sleeps.
  static void set_up();

  explicit Doorbell(Words* words) : words_(words) {}

  void ring() {
    // Keeps the compiler from moving the caller's store behind the look.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (words_->sleepers.load(std::memory_order_relaxed) != 0) wake();
  }

  // Announces a sleeper: until leave(), every ring is heard. sleep() returns at the latest after
  // `ns`, and at once when there was a ring since enter(), whose result it takes.
  uint32_t enter();
  void sleep(uint32_t ticket, uint64_t ns);
  void leave() { words_->sleepers.fetch_sub(1, std::memory_order_relaxed); }

 private:
  void wake();

  Words* words_;
};

}  // namespace rdmalloc::shm
