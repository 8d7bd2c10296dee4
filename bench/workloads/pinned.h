#pragma once

#include <cstddef>

namespace rdmalloc::bench {

// What the heap cannot do without, in bare system calls: maps, populates and locks. `kind`: 4K, thp
// or hugetlb. Exits when one of them fails.
void* map_pinned(size_t bytes, const char* kind);

}  // namespace rdmalloc::bench
