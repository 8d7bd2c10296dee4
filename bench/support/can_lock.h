#pragma once

#include <cstddef>

namespace rdmalloc::bench {

// What a program returns that cannot run here; ctest then says skipped.
inline constexpr int kSkipped = 77;

// False when this process may not lock so much memory, and a line says what to do.
bool can_lock(size_t bytes);

}  // namespace rdmalloc::bench
