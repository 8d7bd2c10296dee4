#pragma once

#include <cstddef>

namespace rdmalloc::bench {

// The minimum that the heap must do, in bare system calls: maps, populates and locks. `kind`: 4K,
// thp or hugetlb. Exits if one of them fails.
void* map_pinned(size_t bytes, const char* kind);

}  // namespace rdmalloc::bench
