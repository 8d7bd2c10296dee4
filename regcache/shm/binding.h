#pragma once

#include <stddef.h>

namespace rdmalloc::shm {

// Binds untouched memory to the calling thread's NUMA node, through hwloc. Does nothing if there is
// only one node or the kernel refuses. First touch then decides, with the same result unless
// another process touches the memory first. Slow (reads the machine's topology): for set-up only.
void bind_to_this_node(void* memory, size_t bytes);

}  // namespace rdmalloc::shm
