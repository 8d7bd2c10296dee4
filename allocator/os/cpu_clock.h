// How long the program has computed, which, unlike the time that passes, does not depend on what
// else runs on the machine. Each call is a system call of a fraction of a microsecond; behind a
// filter of system calls it is the time that passes instead.
#pragma once

#include <cstdint>

#include "allocator/os/clock.h"
#include "allocator/os/confinement.h"

namespace rdmalloc::os {

inline uint64_t cpu_clock_ns(clockid_t clock) {
  return is_confined() ? now_ns() : read_clock_ns(clock);
}

// Nanoseconds of the calling thread.
inline uint64_t thread_cpu_ns() { return cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// Nanoseconds of all threads. In a child of fork it begins anew.
inline uint64_t process_cpu_ns() { return cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace rdmalloc::os
