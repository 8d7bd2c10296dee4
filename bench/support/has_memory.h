#pragma once

#include <cstddef>

namespace rdmalloc::bench {

// Bytes that are available without swapping, as the kernel estimates; 0 if it does not say.
size_t available_memory();

// False if the machine does not have that much available; prints a line about it.
bool has_memory(size_t bytes);

}  // namespace rdmalloc::bench
