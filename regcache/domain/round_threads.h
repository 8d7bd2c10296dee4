// Threads that live for one round of the registrar, so that it can work for several devices at
// once. They are started only for work that takes much longer than starting a thread.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <cstddef>

#include "allocator/os/thread.h"

namespace rdmalloc {

class RoundThreads {
 public:
  RoundThreads() = default;
  // Waits for all of them. If the driver forked in this thread, its child has none to wait for.
  ~RoundThreads() {
    for (size_t i = 0; i < count_ && getpid() == process_; ++i) pthread_join(threads_[i], nullptr);
  }
  RoundThreads(const RoundThreads&) = delete;
  RoundThreads& operator=(const RoundThreads&) = delete;

  // False: there is no thread for it, and the caller does the work.
  bool start(void* (*work)(void*), void* context) {
    if (count_ == kMost) return false;
    if (os::start_thread(&threads_[count_], "rdmalloc-reg", 0, work, context) != 0) return false;
    ++count_;
    return true;
  }

 private:
  static constexpr size_t kMost = 7;  // eight devices with the registrar's own

  const pid_t process_ = getpid();
  pthread_t threads_[kMost] = {};
  size_t count_ = 0;
};

}  // namespace rdmalloc
