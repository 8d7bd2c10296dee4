// What the kernel lets this process have: locked memory, address space, memory of the machine and
// of its control group. Read without malloc, inside malloc, at start and before a region is
// acquired. All sizes in bytes; kNoLimit where there is none. While the process is confined
// (confinement.h) they are what they were before, less what the heap took since.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmalloc::os {

inline constexpr uint64_t kNoLimit = UINT64_MAX;

struct LockLimit {
  uint64_t soft = 0;  // RLIMIT_MEMLOCK, what mlock and a registration are compared with
  uint64_t hard = 0;  // as far as an ordinary process may raise the soft one
  bool unlimited_by_right = false;  // CAP_IPC_LOCK is effective: no limit applies
  uint64_t effective() const { return unlimited_by_right ? kNoLimit : soft; }
};

LockLimit lock_limit();

// What this process has locked now (VmLck), by whomever; kNoLimit where that cannot be known.
uint64_t locked_memory();

// The process's resident memory; 0 where it cannot be read.
uint64_t resident_memory();

// RLIMIT_AS less what is mapped now; kNoLimit without a limit.
uint64_t address_space_left();

uint64_t total_memory();

// How many mappings a process may have (vm.max_map_count).
size_t most_mappings();

// The smallest memory limit of the control groups above this process, v1 or v2.
uint64_t cgroup_limit();

// What is left under the control groups' limits, not counting file cache that can be dropped.
uint64_t cgroup_room();

// What can be populated now without an OOM kill: the machine's available memory, and what is left
// under the control group's limit, whichever is smaller.
uint64_t available_memory();

}  // namespace rdmalloc::os
