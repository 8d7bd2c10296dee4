#include "regcache/shm/plan.h"

namespace rdmalloc::shm {
namespace {

// `unit` is a power of two.
constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) & ~(unit - 1);
}

// How many fragments a list that grows in steps has once it holds at least `least`.
constexpr uint32_t grown_to(uint32_t least) {
  if (least <= kFirstStep) return kFirstStep;
  const uint32_t steps = (least - kFirstStep + kNextStep - 1) / kNextStep;
  return kFirstStep + steps * kNextStep;
}
static_assert(grown_to(2048) == 2056);

}  // namespace

int Plan::make(const Shape& shape, Plan* out, char* why, size_t why_size) {
  if (const int status = check(shape, why, why_size); status != RDM_OK) return status;
  Plan plan;
  plan.shape_ = shape;
  plan.alignment_ = shape.layout == RDM_SHM_PAGE ? shape.page_size : shape.cacheline;
  plan.lay_out_control();
  if (plan.is_aggregated()) {
    plan.lay_out_aggregate();
  } else if (plan.has_pairs()) {
    plan.lay_out_pairs();
  } else {
    plan.lay_out_boxes();
  }
  plan.lay_out_fragments();
  if (!plan.lay_out_parts()) {
    return invalid(why, why_size,
                   "a segment for %u procs would be longer than a file can be: take less of eager "
                   "limit, chunk size, page size or queue entries",
                   shape.procs);
  }
  *out = plan;
  return RDM_OK;
}

uint64_t Plan::to_lines(uint64_t bytes) const { return round_up(bytes, shape_.cacheline); }

uint64_t Plan::block_bytes(uint64_t payload) const {
  return kBlockHeaderBytes + round_up(payload, kBlockUnit) + alignment_;
}

uint64_t Plan::payload_of(uint64_t block) const {
  return round_up(block + kBlockHeaderBytes, alignment_);
}

// Until lay_out_parts(), the rows hold the bytes of one part.
void Plan::lay_out_control() {
  slot_stride_ = to_lines(kSlotBytes);
  list_stride_ = to_lines(kListHeadBytes);
  rows_.size = sizeof rows_;
  rows_.control = slot_stride_ + 2 * list_stride_;
  used_ = rows_.control;
}

void Plan::lay_out_pairs() {
  const uint64_t peers = shape_.procs - 1;
  rows_.fifos = block_bytes(shape_.procs * kFifoBytes);
  wrapper_block_ = block_bytes(kWrapperBytes);
  queue_bytes_ = to_lines(shape_.queue_entries * kEntryBytes);
  queue_block_ = block_bytes(queue_bytes_ + to_lines(kTailBytes));
  head_block_ = block_bytes(kHeadBytes);
  rows_.wrappers = peers * wrapper_block_;
  rows_.queues = peers * queue_block_;
  rows_.heads = peers * head_block_;
  fifos_ = used_;
  pairs_ = fifos_ + rows_.fifos;
  used_ = pairs_ + rows_.wrappers + rows_.queues + rows_.heads;
}

// One block, whose header and alignment are counted with the FIFOs.
void Plan::lay_out_aggregate() {
  const uint64_t procs = shape_.procs;
  const bool apart = (shape_.flags & RDM_SHM_MULTITHREADED) != 0;
  tail_offset_ = apart ? to_lines(kHeadBytes) : kHeadBytes;
  pair_stride_ = apart ? tail_offset_ + to_lines(kTailBytes) : kHeadBytes + kTailBytes;
  const uint64_t fifo_bytes = to_lines(procs * kFifoBytes);
  rows_.queues = to_lines(procs * shape_.queue_entries * kEntryBytes);
  rows_.heads = to_lines(procs * pair_stride_);
  rows_.wrappers = to_lines(procs * kWrapperBytes);
  queues_ = fifo_bytes;
  heads_ = queues_ + rows_.queues;
  wrappers_ = heads_ + rows_.heads;
  const uint64_t block = block_bytes(wrappers_ + rows_.wrappers);
  rows_.fifos = block - (rows_.queues + rows_.heads + rows_.wrappers);
  fifos_ = used_;
  used_ += block;
}

void Plan::lay_out_boxes() {
  const uint32_t peers = shape_.procs - 1;
  box_count_ = peers < shape_.boxes ? peers : shape_.boxes;
  box_stride_ = shape_.cacheline + shape_.box_size;
  rows_.inboxes = 2 * shape_.cacheline;
  rows_.boxes = box_count_ * box_stride_;
  boxes_ = used_ + rows_.inboxes;
  used_ = boxes_ + rows_.boxes;
}

void Plan::lay_out_fragments() {
  const bool inside = (shape_.flags & RDM_SHM_EAGER_WITH_HEADER) != 0;
  eager_bytes_ = shape_.eager_limit - (inside ? kFragmentHeaderBytes : 0);
  eager_stride_ = to_lines(kFragmentHeaderBytes + eager_bytes_);
  eager_ = used_;
  if (!has_pairs()) {
    eager_count_ = shape_.eager_fragments;
    rows_.eager_lists = eager_count_ * eager_stride_;
    used_ += rows_.eager_lists;
    return;
  }
  eager_count_ = grown_to(shape_.eager_fragments);
  const uint32_t steps = (eager_count_ - kFirstStep) / kNextStep;
  rows_.eager_lists =
      block_bytes(kFirstStep * eager_stride_) + steps * block_bytes(kNextStep * eager_stride_);
  max_count_ = shape_.max_fragments;
  max_stride_ = to_lines(kFragmentHeaderBytes + shape_.chunk_size);
  rows_.max_lists = block_bytes(max_count_ * max_stride_);
  max_ = eager_ + rows_.eager_lists;
  used_ = max_ + rows_.max_lists;
}

// False: longer than a file can be. A single part never is, within the ranges of check().
bool Plan::lay_out_parts() {
  first_part_ = round_up(kSegmentHeaderBytes, shape_.page_size);
  part_bytes_ = round_up(used_, shape_.page_size);
  uint64_t parts = 0;
  if (__builtin_mul_overflow(part_bytes_, uint64_t{shape_.procs}, &parts)) return false;
  if (parts > INT64_MAX - first_part_) return false;
  rows_.padding = part_bytes_ - used_;
  uint64_t* const rows[] = {&rows_.wrappers,    &rows_.queues,    &rows_.heads,   &rows_.fifos,
                            &rows_.eager_lists, &rows_.max_lists, &rows_.inboxes, &rows_.boxes,
                            &rows_.control,     &rows_.padding};
  for (uint64_t* row : rows) *row *= shape_.procs;
  rows_.control += kSegmentHeaderBytes;
  rows_.padding += first_part_ - kSegmentHeaderBytes;
  rows_.bytes = first_part_ + parts;
  return true;
}

Range Plan::part(uint32_t rank) const { return {first_part_ + rank * part_bytes_, part_bytes_}; }

// Where the blocks begin that `owner` has for `peer`. It has none for itself.
uint64_t Plan::peer_blocks(uint32_t owner, uint32_t peer) const {
  const uint64_t index = peer < owner ? peer : peer - 1;
  return part(owner).offset + pairs_ + index * (wrapper_block_ + queue_block_ + head_block_);
}

// Where the aggregate of `owner` begins.
uint64_t Plan::aggregate(uint32_t owner) const { return payload_of(part(owner).offset + fifos_); }

uint64_t Plan::fifo(uint32_t from, uint32_t to) const {
  return payload_of(part(to).offset + fifos_) + from * kFifoBytes;
}

uint64_t Plan::wrapper(uint32_t from, uint32_t to) const {
  if (is_aggregated()) return aggregate(to) + wrappers_ + from * kWrapperBytes;
  return payload_of(peer_blocks(to, from));
}

uint64_t Plan::queue(uint32_t from, uint32_t to) const {
  if (is_aggregated()) return aggregate(to) + queues_ + kEntryBytes * from * shape_.queue_entries;
  return payload_of(peer_blocks(to, from) + wrapper_block_);
}

uint64_t Plan::tail(uint32_t from, uint32_t to) const {
  if (is_aggregated()) return aggregate(to) + heads_ + from * pair_stride_ + tail_offset_;
  return queue(from, to) + queue_bytes_;
}

uint64_t Plan::head(uint32_t from, uint32_t to) const {
  if (is_aggregated()) return aggregate(from) + heads_ + to * pair_stride_;
  return payload_of(peer_blocks(from, to) + wrapper_block_ + queue_block_);
}

uint64_t Plan::box(uint32_t rank, uint32_t index) const {
  return part(rank).offset + boxes_ + index * box_stride_;
}

uint64_t Plan::eager_fragment(uint32_t rank, uint32_t index) const {
  uint64_t block = part(rank).offset + eager_;
  if (!has_pairs()) return block + index * eager_stride_;
  if (index >= kFirstStep) {
    index -= kFirstStep;
    block += block_bytes(kFirstStep * eager_stride_) +
             index / kNextStep * block_bytes(kNextStep * eager_stride_);
    index %= kNextStep;
  }
  return payload_of(block) + index * eager_stride_;
}

uint64_t Plan::max_fragment(uint32_t rank, uint32_t index) const {
  return payload_of(part(rank).offset + max_) + index * max_stride_;
}

}  // namespace rdmalloc::shm
