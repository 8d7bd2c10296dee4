// The layout of a segment of shared memory: pure arithmetic, no tables, each query answered in
// constant time, for any number of processes. The segment is exactly as long as the plan says, and
// `rdmalloc shm-plan` prints the same plan.
//
//   segment header | part of rank 0 | part of rank 1 | ...        each begins on a page
//
//   a part: control | what carries messages | free lists of fragments
//     page, cacheline: an allocation for the FIFOs; per peer: wrapper, queue and tail, head
//     aggregated:      one allocation: FIFOs, queues, heads and tails, wrappers
//     mpsc:            inbox, fast boxes
//
// The structures a process receives through lie in its own part, and so do the heads it sends with:
// a part is what one process binds to its node. All parts are alike.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "include/rdmalloc/shm_plan.h"
#include "regcache/shm/box_plan.h"
#include "regcache/shm/fragment_plan.h"
#include "regcache/shm/layout.h"
#include "regcache/shm/pair_plan.h"
#include "regcache/shm/shape.h"

namespace rdmalloc::shm {

// A value: created by make(), then constant. Queries may come from any thread and context. Offsets
// are relative to the segment, except those of boxes(), eager() and large(), which are for at().
class Plan {
 public:
  // RDM_OK, or RDM_INVALID and a message at `why`; *out is then unchanged. Checks all of `shape`,
  // which may be untrusted.
  static int make(const Shape& shape, Plan* out, char* why, size_t why_size);

  Plan() = default;
  const Shape& shape() const { return shape_; }
  uint64_t bytes() const { return rows_.bytes; }
  const rdm_shm_plan& rows() const { return rows_; }

  // Everything that belongs to one process, in whole pages.
  Range part(uint32_t rank) const { return {first_part_ + rank * part_bytes_, part_bytes_}; }
  uint64_t at(uint32_t rank, uint64_t into_part) const { return part(rank).offset + into_part; }
  // The kSlotBytes at the start of the part, on their own lines.
  uint64_t slot(uint32_t rank) const { return part(rank).offset; }

  // Not for mpsc. The two processes differ.
  PairPlan pair(uint32_t from, uint32_t to) const;
  // mpsc only.
  const BoxPlan& boxes() const { return boxes_; }

  const FragmentPlan& eager() const { return eager_; }
  const FragmentPlan& large() const { return large_; }

 private:
  uint64_t lay_out_part(const Shape& shape);
  bool lay_out_parts(uint64_t used);

  Shape shape_ = {};
  rdm_shm_plan rows_ = {};
  uint64_t first_part_ = 0;
  uint64_t part_bytes_ = 0;
  // What each part has.
  PairBlocks blocks_;        // page, cacheline
  PairAggregate aggregate_;  // aggregated
  BoxPlan boxes_;            // mpsc
  FragmentPlan eager_, large_;
};

}  // namespace rdmalloc::shm
