#pragma once

#include <pthread.h>

namespace rdmalloc {

// Holds a lock that is never taken inside malloc, and so has no rank (allocator/mutex.h).
class PosixLock {
 public:
  explicit PosixLock(pthread_mutex_t* mutex) : mutex_(mutex) { pthread_mutex_lock(mutex_); }
  ~PosixLock() { pthread_mutex_unlock(mutex_); }
  PosixLock(const PosixLock&) = delete;
  PosixLock& operator=(const PosixLock&) = delete;

 private:
  pthread_mutex_t* const mutex_;
};

}  // namespace rdmalloc
