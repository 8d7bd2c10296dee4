// How a fork waits for registrations that may hide memory from its child.
#pragma once

#include <time.h>

#include "allocator/os/thread.h"

namespace rdmalloc {

// Tries is_done() every millisecond, for ten seconds at most: a driver that hangs must not block
// every fork forever. Counts its steps, because a clock may be set. True: it is done. In the
// handlers of fork.
template <typename IsDone>
bool wait_before_fork(IsDone is_done) {
  constexpr int kLongestMs = 10'000;
  constexpr timespec kMillisecond{0, 1'000'000};
  const os::NoCancel no_cancel;  // nanosleep() is a cancellation point; fork() is not
  for (int i = 0; i < kLongestMs; ++i) {
    if (is_done()) return true;
    nanosleep(&kMillisecond, nullptr);
  }
  return false;
}

}  // namespace rdmalloc
