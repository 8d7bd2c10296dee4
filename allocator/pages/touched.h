// Whether anybody has touched pages. What nobody has touched takes no memory: moving it saves none,
// and emptying caches of it neither.
//
// Runs inside malloc: a short system call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/confinement.h"
#include "allocator/os/memory.h"

namespace rdmalloc {

// Judged by the page in the middle. True where nobody may ask.
inline bool is_touched(uintptr_t address, size_t size) {
  if (os::is_confined()) return true;
  const uintptr_t middle = os::page_floor(address + size / 2);
  return os::resident_bytes(reinterpret_cast<void*>(middle), os::page_size()) != 0;
}

}  // namespace rdmalloc
