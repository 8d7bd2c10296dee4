#pragma once

#include <time.h>

#include <cstdint>

#include "allocator/os/confinement.h"

namespace rdmalloc::os {

inline uint64_t time_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

// Nanoseconds since some moment in the past; never goes back.
inline uint64_t now_ns() { return time_of(CLOCK_MONOTONIC); }

// CPU time of the process, which is 0 again in a child of fork, and of the calling thread, in
// nanoseconds. A sandbox may forbid asking, unlike for now_ns(), which is then the answer.
inline uint64_t process_cpu_ns() {
  return is_confined() ? now_ns() : time_of(CLOCK_PROCESS_CPUTIME_ID);
}
inline uint64_t thread_cpu_ns() {
  return is_confined() ? now_ns() : time_of(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace rdmalloc::os
