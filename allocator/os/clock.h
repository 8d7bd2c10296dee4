#pragma once

#include <time.h>

#include <cstdint>

namespace rdmalloc::os {

inline uint64_t read_clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

// Nanoseconds since some moment in the past; never goes back.
uint64_t now_ns();

// The same, up to 10 ms late, at a fifth of the cost.
uint64_t now_about_ns();

}  // namespace rdmalloc::os
