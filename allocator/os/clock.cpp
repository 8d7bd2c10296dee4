#include "allocator/os/clock.h"

namespace rdmalloc::os {

uint64_t now_ns() { return read_clock_ns(CLOCK_MONOTONIC); }

uint64_t now_about_ns() { return read_clock_ns(CLOCK_MONOTONIC_COARSE); }

}  // namespace rdmalloc::os
