#pragma once

#include <stdint.h>

namespace rdmalloc::shm {

// Identifies a process: its start time tells apart reuses of the same number, and the PID namespace
// tells apart equal numbers of different namespaces.
struct Process {
  uint32_t id = 0;  // 0: unknown
  uint64_t start = 0;
  uint64_t name_space = 0;
};

Process this_process();

// True: `other` is in this namespace and runs (zombies do not). False for processes that cannot be
// seen.
bool is_seen_running(const Process& other, const Process& self);

}  // namespace rdmalloc::shm
