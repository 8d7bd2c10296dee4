#include "allocator/limits/memory_limit.h"

#include <algorithm>

#include "allocator/os/limits.h"

namespace rdmalloc {
namespace {

// Left to the rest of the system when memory is populated: page tables, stacks, file cache.
constexpr uint64_t kLeastReserve = uint64_t{16} << 20;
constexpr uint64_t kReserveShare = 64;

// With so little left, the next process that touches memory is killed: the kernel reserves part of
// a limit for each processor and for page tables.
constexpr uint64_t kLeastLeft = uint64_t{2} << 20;
constexpr uint64_t kMostLeft = uint64_t{16} << 20;

using os::less;

}  // namespace

void MemoryLimit::set_total(uint64_t machine, uint64_t total) {
  machine_ = machine;
  total_ = total;
}

void MemoryLimit::set_cap(uint64_t bytes, bool is_share) {
  const uint64_t most = less(total(), std::min(total() / 2, kProcessReserve));
  cap_ = is_share ? std::min(bytes, most) : bytes;
}

bool MemoryLimit::is_beyond_machine(uint64_t bytes) const {
  return bytes > machine_ && bytes > machine_ + os::total_swap();
}

uint64_t MemoryLimit::room_to_populate() const {
  return less(os::memory_left().to_populate, std::max(total() / kReserveShare, kLeastReserve));
}

uint64_t MemoryLimit::room_to_touch() const {
  return less(os::memory_left().to_touch,
              std::clamp(total() / kReserveShare, kLeastLeft, kMostLeft));
}

}  // namespace rdmalloc
