#pragma once

#include <stdint.h>

#include "regcache/shm/plan.h"
#include "regcache/shm/process.h"
#include "regcache/shm/segment_header.h"
#include "regcache/shm/shared_file.h"

namespace rdmalloc::shm {

// A segment as one rank sees it: its file, what lies where in it, and which rank that is. Set up by
// one thread (Segment); constant from commit() on.
struct Mapping {
  SharedFile file;
  Plan plan;
  Process self;
  uint32_t rank = 0;

  uint32_t procs() const { return plan.shape().procs; }
  unsigned char* at(uint64_t offset) const { return file.base() + offset; }
  template <typename T>
  T* as(uint64_t offset) const {
    return reinterpret_cast<T*>(at(offset));
  }
  uint64_t offset_of(const void* address) const {
    return static_cast<uint64_t>(static_cast<const unsigned char*>(address) - at(0));
  }
  SegmentHeader* header() const { return as<SegmentHeader>(0); }
  RankSlot* slot(uint32_t of) const { return as<RankSlot>(plan.slot(of)); }
};

}  // namespace rdmalloc::shm
