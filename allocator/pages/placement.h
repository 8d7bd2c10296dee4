// Decides on which NUMA node pages are to lie, and finds the node of pages that a program gave
// back. With one node, with a program that has its own memory policy from the start, or if the
// options say so, nodes are ignored: then everything belongs to node 0.
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
  // `choice`: the value of the option numa. Called once, before there are threads.
  void boot(uint64_t choice);

  // True when pages are kept apart by node.
  bool is_on() const { return is_on_; }

  // The node of the calling thread.
  int node_here() const { return is_on_ ? os::current_node() : 0; }

  // True when pages of that use lie where they are touched first.
  bool is_by_touch(RegionUse use) const { return is_by_touch_ && use == RegionUse::kBlocks; }

  // Asks the kernel to place pages of a region on its node, unless they go where they are touched,
  // or the calling thread has a memory policy.
  void place(const RegionFacts& region, void* address, size_t bytes) const;

  // The node that pages of a region lie on, for which they become free; the calling thread's if
  // they lie on several.
  int node_of(const RegionFacts& region, const void* address, size_t bytes) const;

 private:
  bool is_on_ = false;
  bool is_by_touch_ = false;
};

}  // namespace rdmalloc
