#include "regcache/domain/memory_hole.h"

#include <string.h>

#include "allocator/os/file.h"

namespace rdmalloc {

MemoryHole find_memory_hole(const void* base, size_t length, bool writes) {
  const auto begin = reinterpret_cast<uintptr_t>(base);
  const uintptr_t end = begin + length;
  uintptr_t reached = begin;
  const char* what = nullptr;
  os::for_each_line("/proc/self/maps", [&](os::Text line) {
    uint64_t low = 0;
    uint64_t high = 0;
    const void* rights = memchr(line.data, ' ', line.size);
    if (!os::parse_range(line, &low, &high) || rights == nullptr || high <= reached) return true;
    if (low > reached || reached >= end) return false;
    const auto* flags = static_cast<const char*>(rights) + 1;
    if (flags[0] != 'r') what = "may not be read";
    if (flags[0] == 'r' && writes && flags[1] != 'w') what = "may not be written";
    if (what != nullptr) return false;
    reached = high;
    return true;
  });
  if (what == nullptr && reached < end) what = "is not mapped";
  return {what, what == nullptr ? 0 : reached - begin};
}

}  // namespace rdmalloc
