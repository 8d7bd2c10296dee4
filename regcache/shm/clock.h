#pragma once

#include <stdint.h>
#include <time.h>

namespace rdmalloc::shm {

inline uint64_t now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
}

inline void nap_ms(uint32_t ms) {
  const timespec length{ms / 1000, static_cast<long>(ms % 1000) * 1'000'000};
  nanosleep(&length, nullptr);
}

}  // namespace rdmalloc::shm
