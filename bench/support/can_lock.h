#pragma once

#include <cstddef>

namespace rdmalloc::bench {

// The exit status of a program that cannot run here; ctest then reports it as skipped.
inline constexpr int kSkipped = 77;

// False if this process may not lock that much memory; prints what to do.
bool can_lock(size_t bytes);

}  // namespace rdmalloc::bench
