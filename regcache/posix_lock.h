#pragma once

#include <pthread.h>

#include "regcache/lock_order.h"

namespace rdmalloc {

// Holds a lock that is never taken inside malloc, and so has no rank among the heap's
// (allocator/mutex.h).
class PosixLock {
 public:
  explicit PosixLock(pthread_mutex_t* mutex, LockRank rank = LockRank::kLeaf)
      : mutex_(mutex), outer_(enter_rank(rank)) {
    pthread_mutex_lock(mutex_);
  }
  ~PosixLock() {
    if (is_held()) pthread_mutex_unlock(mutex_);
    leave_rank(outer_);
  }
  PosixLock(const PosixLock&) = delete;
  PosixLock& operator=(const PosixLock&) = delete;

  // Does not wait if another thread has the lock: see is_held().
  struct Try {};
  PosixLock(pthread_mutex_t* mutex, LockRank rank, Try)
      : mutex_(pthread_mutex_trylock(mutex) == 0 ? mutex : nullptr), outer_(enter_rank(rank)) {}
  bool is_held() const { return mutex_ != nullptr; }

 private:
  pthread_mutex_t* const mutex_;
  const LockRank outer_;
};

}  // namespace rdmalloc
