// The clock that calls of malloc are stamped with: the processor's counter, because asking libc for
// the time costs more than a malloc. What a tick is worth is measured by who packs the recording.
#pragma once

#include <cstdint>

#include "allocator/os/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace rdmalloc::trace {

// False where the counter does not run evenly, or there is none that we know: then use the clock.
inline bool has_steady_counter() {
#if defined(__x86_64__)
  constexpr unsigned kPowerManagement = 0x80000007;
  constexpr unsigned kInvariantCounter = 1U << 8;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariantCounter) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

// The processor may read the counter some hundred instructions early, before what is in front of it
// has happened.
inline uint64_t counter() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return os::now_ns();
#endif
}

// What another thread did before it handed the caller something comes before what counter() reads
// after this. It takes as long as reading the counter does.
inline void wait_for_earlier_loads() {
#if defined(__x86_64__)
  _mm_lfence();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// False after choose_clock() where the counter is none.
inline constinit bool counter_is_clock = true;

// Once, before anything is stamped.
inline void choose_clock() { counter_is_clock = has_steady_counter(); }

inline uint64_t now_ticks() {
  if (counter_is_clock) [[likely]]
    return counter();
  return os::now_ns();
}

}  // namespace rdmalloc::trace
