// What a thread does between two looks at something that another thread is about to change:
// nothing, for tens of nanoseconds, in a way that leaves the processor to its sibling.
#pragma once

namespace rdmalloc::os {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most of these
#endif
}

}  // namespace rdmalloc::os
