#pragma once

#include <cstdint>

#include "allocator/os/file.h"

namespace rdmalloc {

// How many bytes all registrations, ours and others', have pinned in this process according to the
// kernel (VmPin). Not inside malloc: it reads a file.
inline uint64_t pinned_by_registrations() {
  uint64_t kib = 0;
  os::for_each_line("/proc/self/status",
                    [&kib](os::Text line) { return !os::parse_field(line, "VmPin:", &kib); });
  return kib << 10;
}

}  // namespace rdmalloc
