// Threads on the guest's NUMA nodes.
#pragma once

#include <sched.h>

#include <thread>

#include "tests/integration/probe.h"

namespace guest {

inline constexpr int kNodes = 2;

// Runs the work in a thread bound to that node. Node k of the guest has one processor, k.
template <typename Work>
void on_node(int node, Work work) {
  std::thread thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(node, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) probe::skip("there is no second processor");
    work();
  });
  thread.join();
}

}  // namespace guest
