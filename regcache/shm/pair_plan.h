// Where in the parts of a segment the structures lie through which one process sends to another:
// FIFO, wrapper, queue and tail in the receiver's part, the head in the sender's. Values; any
// thread and context.
#pragma once

#include <stdint.h>

#include "regcache/shm/layout.h"
#include "regcache/shm/shape.h"

namespace rdmalloc::shm {

struct PairPlan {
  uint64_t fifo;
  uint64_t wrapper;
  uint64_t queue;
  uint64_t tail;
  uint64_t head;
};

// page, cacheline: an allocation for the FIFOs, then for each peer one with the wrapper, one with
// queue and tail, one with the head.
class PairBlocks {
 public:
  PairBlocks() = default;
  // From `*used` bytes into each part, which grows. Sets the rows of one part.
  PairBlocks(const Shape& shape, const Blocks& blocks, uint64_t* used, rdm_shm_plan* rows);

  // Each in bytes from the beginning of its part. The two processes differ.
  PairPlan pair(uint32_t from, uint32_t to) const;

 private:
  uint64_t blocks_of(uint32_t owner, uint32_t peer) const;

  Blocks blocks_{};
  uint64_t fifos_ = 0;    // the block
  uint64_t peers_ = 0;    // the first peer's blocks
  uint64_t wrapper_ = 0;  // the bytes of a peer's blocks
  uint64_t queue_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;  // from a queue to its tail
};

// aggregated: one allocation with all FIFOs, then all queues, all heads and tails, all wrappers.
class PairAggregate {
 public:
  PairAggregate() = default;
  // As PairBlocks. The allocation's header and alignment are counted with the FIFOs.
  PairAggregate(const Shape& shape, const Blocks& blocks, uint64_t* used, rdm_shm_plan* rows);

  PairPlan pair(uint32_t from, uint32_t to) const;

 private:
  uint64_t fifos_ = 0;
  uint64_t queues_ = 0;
  uint64_t heads_ = 0;
  uint64_t wrappers_ = 0;
  uint64_t queue_stride_ = 0;  // from one peer's queue to the next peer's
  uint64_t head_stride_ = 0;
  uint64_t tail_ = 0;  // from a head to the tail beside it
};

}  // namespace rdmalloc::shm
