#pragma once

#include <stdint.h>

namespace rdmalloc::shm {

// Which process: a number that is used again is told apart by when its process started, and numbers
// of another PID namespace by the namespace.
struct Process {
  uint32_t id = 0;  // 0: not known
  uint64_t start = 0;
  uint64_t name_space = 0;
};

Process this_process();

// True: `other` is of this namespace and runs (a zombie does not). What cannot be seen does not.
bool is_seen_running(const Process& other, const Process& self);

}  // namespace rdmalloc::shm
