// What a thread does between two looks at something that another thread is about to change.
#pragma once

#include <sched.h>

#include "allocator/os/confinement.h"

namespace rdmalloc::os {

// Nothing, for tens of nanoseconds, in a way that leaves the processor to its sibling.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most of these
#endif
}

// Leaves the processor to a thread that waits for it, as the other one may. False, and nothing is
// done, behind a filter of system calls, which may forbid it.
inline bool yield() {
  if (is_confined()) return false;
  sched_yield();
  return true;
}

}  // namespace rdmalloc::os
