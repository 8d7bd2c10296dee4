// Where the calling thread runs. Inside malloc only the kernel is asked (getcpu): hwloc allocates
// and reads sysfs for milliseconds, so it belongs to the command and the tests, not here.
#pragma once

namespace rdmalloc::os {

inline constexpr int kMaxNodes = 64;

// The NUMA node of the processor that runs this thread now: 0 .. kMaxNodes-1.
int current_node();

// True when the kernel has more than one NUMA node online; read once by the caller.
bool has_several_nodes();

}  // namespace rdmalloc::os
