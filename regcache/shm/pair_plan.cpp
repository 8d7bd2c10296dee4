#include "regcache/shm/pair_plan.h"

namespace rdmalloc::shm {

PairBlocks::PairBlocks(const Shape& shape, const Blocks& blocks, uint64_t* used, rdm_shm_plan* rows)
    : blocks_(blocks) {
  const uint64_t peers = shape.procs - 1;
  tail_ = shape.to_lines(shape.queue_entries * kEntryBytes);
  wrapper_ = blocks.bytes_for(kWrapperBytes);
  queue_ = blocks.bytes_for(tail_ + shape.to_lines(kTailBytes));
  head_ = blocks.bytes_for(kHeadBytes);
  rows->fifos = blocks.bytes_for(shape.procs * kFifoBytes);
  rows->wrappers = peers * wrapper_;
  rows->queues = peers * queue_;
  rows->heads = peers * head_;
  fifos_ = *used;
  peers_ = fifos_ + rows->fifos;
  *used = peers_ + rows->wrappers + rows->queues + rows->heads;
}

// Where the blocks begin that `owner` has for `peer`. It has none for itself.
uint64_t PairBlocks::blocks_of(uint32_t owner, uint32_t peer) const {
  const uint64_t index = peer < owner ? peer : peer - 1;
  return peers_ + index * (wrapper_ + queue_ + head_);
}

PairPlan PairBlocks::pair(uint32_t from, uint32_t to) const {
  const uint64_t receivers = blocks_of(to, from);
  const uint64_t queue = blocks_.payload_of(receivers + wrapper_);
  return {blocks_.payload_of(fifos_) + from * kFifoBytes, blocks_.payload_of(receivers), queue,
          queue + tail_, blocks_.payload_of(blocks_of(from, to) + wrapper_ + queue_)};
}

PairAggregate::PairAggregate(const Shape& shape, const Blocks& blocks, uint64_t* used,
                             rdm_shm_plan* rows) {
  const uint64_t procs = shape.procs;
  const bool apart = shape.has_threads();
  tail_ = apart ? shape.to_lines(kHeadBytes) : kHeadBytes;
  head_stride_ = apart ? tail_ + shape.to_lines(kTailBytes) : kHeadBytes + kTailBytes;
  queue_stride_ = kEntryBytes * shape.queue_entries;
  rows->queues = shape.to_lines(procs * queue_stride_);
  rows->heads = shape.to_lines(procs * head_stride_);
  rows->wrappers = shape.to_lines(procs * kWrapperBytes);
  const uint64_t others = rows->queues + rows->heads + rows->wrappers;
  const uint64_t fifo_bytes = shape.to_lines(procs * kFifoBytes);
  const uint64_t block = blocks.bytes_for(fifo_bytes + others);
  rows->fifos = block - others;
  fifos_ = blocks.payload_of(*used);
  queues_ = fifos_ + fifo_bytes;
  heads_ = queues_ + rows->queues;
  wrappers_ = heads_ + rows->heads;
  *used += block;
}

PairPlan PairAggregate::pair(uint32_t from, uint32_t to) const {
  return {fifos_ + from * kFifoBytes, wrappers_ + from * kWrapperBytes,
          queues_ + from * queue_stride_, heads_ + from * head_stride_ + tail_,
          heads_ + to * head_stride_};
}

}  // namespace rdmalloc::shm
