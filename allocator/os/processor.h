// Which processor runs the calling thread: a hint, because the thread may run on another one a
// moment later. Works inside malloc, and before libc is initialised.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>

#include "allocator/os/confinement.h"

namespace rdmalloc::os {

// Something may be kept for each of this many processors at most.
inline constexpr size_t kMostProcessors = 1024;

// Some of them, laid out as sched_setaffinity() takes them.
struct Processors {
  uint64_t bits[kMostProcessors / 64] = {};

  void add(size_t processor) { bits[processor / 64] |= uint64_t{1} << processor % 64; }
  bool has(size_t processor) const { return (bits[processor / 64] >> processor % 64 & 1) != 0; }
  bool has_any() const {
    for (const uint64_t word : bits) {
      if (word != 0) return true;
    }
    return false;
  }
};

// Where in a thread's memory the kernel writes the number (glibc 2.35 registers a restartable
// sequence for each thread): bytes from the thread pointer; 0 if the kernel does not write it.
extern constinit ptrdiff_t processor_number_at;

// Finds out whether the kernel does. Called once, before the first call of current_processor().
void find_processor_number();

// The same for a caller that has read processor_number_at, which is not 0. Not a processor's number
// (negative, as an int) in a thread for which the kernel does not write it.
inline uint32_t processor_number(ptrdiff_t at) {
  const auto* thread = static_cast<const char*>(__builtin_thread_pointer());
  return *reinterpret_cast<const volatile uint32_t*>(thread + at);
}

// Whether libc may be asked for the number: elsewhere than on x86-64 it makes a system call, which
// a filter may forbid (confinement.h).
inline bool may_ask_for_number() {
#if defined(__x86_64__)
  return true;
#else
  return !is_confined();
#endif
}

inline unsigned current_processor() {
  if (processor_number_at != 0) [[likely]] {
    const auto* thread = static_cast<const char*>(__builtin_thread_pointer());
    const int32_t number = *reinterpret_cast<const volatile int32_t*>(thread + processor_number_at);
    if (number >= 0) [[likely]]
      return static_cast<unsigned>(number);
  }
  if (!may_ask_for_number()) return 0;
  const int number = sched_getcpu();
  return number < 0 ? 0 : static_cast<unsigned>(number);
}

}  // namespace rdmalloc::os
