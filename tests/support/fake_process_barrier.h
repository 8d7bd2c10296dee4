// A kernel with or without membarrier.
#pragma once

#include <atomic>

namespace rdmalloc::fake {

struct ProcessBarrier {
  std::atomic<bool> is_there{true};
  std::atomic<bool> works{true};  // if it is there at all
  std::atomic<int> calls{0};
};

extern ProcessBarrier process_barrier;

}  // namespace rdmalloc::fake
