// What is written by different threads lies this far apart, at least.
#pragma once

#include <cstddef>

namespace rdmalloc::os {

inline constexpr size_t kCacheLine = 64;  // bytes

}  // namespace rdmalloc::os
