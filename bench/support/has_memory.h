#pragma once

#include <cstddef>

namespace rdmalloc::bench {

// False when the machine has not so many bytes to give without swapping, and a line says so.
bool has_memory(size_t bytes);

}  // namespace rdmalloc::bench
