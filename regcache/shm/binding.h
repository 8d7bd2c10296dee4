#pragma once

#include <stddef.h>

namespace rdmalloc::shm {

// Binds memory that nobody has touched to the NUMA node of the calling thread, through hwloc. Does
// nothing where there is one node, or the kernel refuses: then first touch decides, which is the
// same unless somebody else comes first. Slow (reads the machine's topology): at set-up only.
void bind_to_this_node(void* memory, size_t bytes);

}  // namespace rdmalloc::shm
