// Common code of the multi-threaded workloads.
#pragma once

#include <stdlib.h>
#include <string.h>

#include <thread>
#include <vector>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {

constexpr size_t kThreads = 4;

using Slots = std::vector<void*>;

inline void replace(Slots& slots, Random& random, size_t largest, size_t steps) {
  for (size_t i = 0; i < steps; ++i) {
    void*& slot = slots[random.below(slots.size())];
    free(slot);
    const size_t size = random.between(8, largest);
    slot = malloc(size);
    memset(slot, 1, size < 64 ? size : 64);
  }
}

inline void free_all(Slots& slots) {
  for (void*& slot : slots) {
    free(slot);
    slot = nullptr;
  }
}

template <typename Body>
void in_threads(size_t count, Body body) {
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (size_t i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rdmalloc::bench
