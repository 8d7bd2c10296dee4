#pragma once

#include <sched.h>

#include <atomic>

namespace rdmalloc::shm {

// Excludes other threads of the same process, for a few instructions. Waiting threads yield.
class SpinLock {
 public:
  bool try_lock() { return !is_held_.exchange(true, std::memory_order_acquire); }
  void lock() {
    while (!try_lock()) sched_yield();
  }
  void unlock() { is_held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_held_{false};
};

}  // namespace rdmalloc::shm
