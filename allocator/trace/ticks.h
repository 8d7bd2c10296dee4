// The clock that stamps malloc calls: the processor's counter, because asking libc for the time
// costs more than a malloc. The process that packs the recording measures what a tick is worth.
#pragma once

#include <atomic>
#include <cstdint>

#include "allocator/os/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace rdmalloc::trace {

// False: the counter does not run evenly, or we know none; then use the clock.
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

// The processor may read the counter some hundred instructions early, before preceding instructions
// have taken effect.
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

// Ensures that what another thread did before it handed the caller something precedes the next read
// of the counter. It takes as long as reading the counter.
inline void wait_for_earlier_loads() {
#if defined(__x86_64__)
  _mm_lfence();
#elif defined(__aarch64__)
  // The barrier waits for the loads; only then may the counter be read.
  asm volatile("dsb ishld\n\tisb" ::: "memory");
#endif
}

enum class Source : uint8_t { kUnknown, kCounter, kClock };
inline constinit std::atomic<Source> source{Source::kUnknown};

[[gnu::noinline]] inline uint64_t ticks_of_other_source() {
  // Chosen before the first stamp, because stamps of both cannot be compared. Threads that choose
  // at the same time choose the same.
  if (source.load(std::memory_order_relaxed) == Source::kUnknown) {
    source.store(has_steady_counter() ? Source::kCounter : Source::kClock,
                 std::memory_order_relaxed);
  }
  return source.load(std::memory_order_relaxed) == Source::kCounter ? counter() : os::now_ns();
}

inline uint64_t now_ticks() {
  if (source.load(std::memory_order_relaxed) == Source::kCounter) [[likely]]
    return counter();
  return ticks_of_other_source();
}

}  // namespace rdmalloc::trace
