#pragma once

#include <time.h>

#include <cstdint>

namespace rdmalloc::os {

// Nanoseconds since some moment in the past; never goes back.
inline uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000U + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace rdmalloc::os
