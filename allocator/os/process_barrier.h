// A memory barrier in all threads of the process at once, called by one of them (membarrier). A
// frequent path then needs no barrier if the rare path calls this.
#pragma once

namespace rdmalloc::os {

// True when process_barrier() may be called from now on. Costs milliseconds in a process with
// threads. A child of fork must ask again.
bool enable_process_barrier();

// Orders the memory accesses of all threads: when it returns true, each has run a full barrier
// since the call. False: the kernel now refuses, for example under a seccomp filter. Takes
// microseconds.
[[nodiscard]] bool process_barrier();

}  // namespace rdmalloc::os
