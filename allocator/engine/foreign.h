// Pointers that reach our free() and realloc() but came from another malloc: libc's, when it served
// requests before this library was bound. Not exposed ones (exposed.h). Cold.
#pragma once

#include <cstddef>

namespace rdmalloc::engine {

void free_foreign(void* pointer);
void* realloc_foreign(void* pointer, size_t size);
size_t foreign_usable_size(void* pointer);

}  // namespace rdmalloc::engine
