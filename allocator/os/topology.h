// Where the calling thread runs. Inside malloc only the kernel is asked (getcpu): hwloc allocates
// and reads sysfs for milliseconds, so it belongs to the command and the tests, not here.
#pragma once

#include <cstddef>

namespace rdmalloc::os {

inline constexpr int kMaxNodes = 64;

// The NUMA node of the processor that runs this thread now: 0 .. kMaxNodes-1.
int current_node();

// Finds out the node of every processor, because a filter may forbid to ask (confinement.h).
void remember_nodes();

// True when the kernel has more than one NUMA node online; read once by the caller.
bool has_several_nodes();

// True when the program, or its launcher (numactl), has chosen where the calling thread's pages
// lie: set_mempolicy(2), other than local.
bool has_memory_policy();

// The node on which more than half of the range's populated pages lie, judged by a sample.
inline constexpr int kNoNode = -1;        // no page is populated, or the kernel does not tell
inline constexpr int kSeveralNodes = -2;  // no node has that many
int node_of_pages(const void* address, size_t bytes);

}  // namespace rdmalloc::os
