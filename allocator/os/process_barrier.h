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

// The same two for restartable sequences (rseq): when restart_barrier() returns true, no thread on
// that processor, or on any, is in a sequence that it began before the call. Linux 5.10.
inline constexpr int kAllProcessors = -1;
bool enable_restart_barrier();
[[nodiscard]] bool restart_barrier(int processor);

}  // namespace rdmalloc::os
