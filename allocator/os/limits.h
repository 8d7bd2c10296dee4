// What the kernel allows this process: locked memory, address space, memory of the machine and of
// its control group. Read without malloc, inside malloc, at start and before a region is acquired.
// All sizes are in bytes; kNoLimit: there is no limit. While the process is confined
// (confinement.h), the values are those from before, less what the heap has taken since.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc::os {

inline constexpr uint64_t kNoLimit = UINT64_MAX;

// The difference, or 0 if it would be negative.
constexpr uint64_t less(uint64_t from, uint64_t amount) {
  return from > amount ? from - amount : 0;
}

struct LockLimit {
  uint64_t soft = 0;  // RLIMIT_MEMLOCK, what mlock and a registration are compared with
  uint64_t hard = 0;  // as far as an ordinary process may raise the soft one
  // CAP_IPC_LOCK is effective, and not just in a user namespace: no limit applies.
  bool unlimited_by_right = false;
  uint64_t effective() const { return unlimited_by_right ? kNoLimit : soft; }
};

LockLimit lock_limit();
// The soft limit only: one system call.
uint64_t soft_lock_limit();

// What all code in this process has locked now (VmLck); kNoLimit if that is unknown.
uint64_t locked_memory();

// The process's resident memory; 0 where it cannot be read.
uint64_t resident_memory();

// RLIMIT_AS less what is mapped now; kNoLimit without a limit.
uint64_t address_space_left();

uint64_t total_memory();
// What the kernel has, which is mostly the same, by one system call that reads no file.
uint64_t installed_memory();

// How many mappings a process may have (vm.max_map_count).
size_t most_mappings();

// The control group above this process that has the least limit on its memory, v1 or v2.
struct Cgroup {
  uint64_t limit = kNoLimit;  // version 2: memory.high, too
  uint64_t id = 0;            // the same for all processes in it; 0: no group has a limit
  uint64_t max = kNoLimit;    // of it or a group above it: beyond that the kernel kills
};

Cgroup cgroup();

// The memory left on the machine or under the limits of the control groups, whichever is less.
// Memory that the kernel can reclaim (page cache, its own caches) counts as left.
struct MemoryLeft {
  // Until the kernel kills a process. Memory that can be swapped out counts as left.
  uint64_t to_touch = kNoLimit;
  // Until the kernel throttles allocation (version 2: memory.high) or swaps. Version 1's soft limit
  // throttles nobody.
  uint64_t to_populate = kNoLimit;
};

MemoryLeft memory_left();

// How much the machine can swap out in all.
uint64_t total_swap();

}  // namespace rdmalloc::os
