// Finds where memory cannot be registered, for the error message: backends ask after a failure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc {

struct MemoryHole {
  const char* what = nullptr;  // "is not mapped", ...; null: the kernel's map shows no reason
  size_t offset = 0;           // where it begins: bytes from the base
};

// Finds the first place in the range that is unmapped, unreadable or, for a device that `writes`,
// not writable. Reads /proc/self/maps; does not allocate.
MemoryHole find_memory_hole(const void* base, size_t length, bool writes);

}  // namespace rdmalloc
