// On which NUMA node pages are to lie, and on which those lie that a program gave back. Where there
// is one node, or the program has a memory policy of its own from the start, or the options say so,
// nodes are not looked at: then everything is node 0's.
//
// Runs inside malloc; on a machine with several nodes some short system calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/topology.h"
#include "allocator/pages/region.h"

namespace rdmalloc {

class Placement {
 public:
  // `choice`: of the option numa. Once, before there are threads.
  void boot(uint64_t choice);

  // Pages are kept apart by node.
  bool is_on() const { return is_on_; }

  // The node of the calling thread.
  int node_here() const { return is_on_ ? os::current_node() : 0; }

  // Pages of that use lie where they are touched first.
  bool is_by_touch(RegionUse use) const { return is_by_touch_ && use == RegionUse::kBlocks; }

  // Has pages of a region come on its node, unless they go where they are touched, or the calling
  // thread has a memory policy.
  void place(const RegionFacts& region, void* address, size_t bytes) const;

  // The node that pages of a region lie on, for which they are free now: the calling thread's if
  // they lie on several.
  int node_of(const RegionFacts& region, const void* address, size_t bytes) const;

 private:
  bool is_on_ = false;
  bool is_by_touch_ = false;
};

}  // namespace rdmalloc
