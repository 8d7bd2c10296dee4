#include "regcache/shm/plan.h"

namespace rdmalloc::shm {

int Plan::make(const Shape& shape, Plan* out, char* why, size_t why_size) {
  if (const int status = check(shape, why, why_size); status != RDM_OK) return status;
  Plan plan;
  if (!plan.lay_out_parts(plan.lay_out_part(shape))) {
    return invalid(why, why_size,
                   "a segment for %u procs would be longer than a file can be: take less of eager "
                   "limit, chunk size, page size or queue entries",
                   shape.procs);
  }
  *out = plan;
  return RDM_OK;
}

// Returns the bytes of a part. Until lay_out_parts(), the rows are those of one part.
uint64_t Plan::lay_out_part(const Shape& shape) {
  shape_ = shape;
  const Blocks blocks{shape.layout == RDM_SHM_PAGE ? shape.page_size : shape.cacheline};
  const uint64_t eager_list = shape.to_lines(kSlotBytes);
  const uint64_t large_list = eager_list + shape.to_lines(kListHeadBytes);
  const bool inside = (shape.flags & RDM_SHM_EAGER_WITH_HEADER) != 0;
  const uint64_t eager_bytes = shape.eager_limit - (inside ? kFragmentHeaderBytes : 0);
  eager_ = FragmentPlan(shape, eager_list, eager_bytes);
  large_ = FragmentPlan(shape, large_list, shape.chunk_size);
  rows_.size = sizeof rows_;
  rows_.control = large_list + shape.to_lines(kListHeadBytes);
  uint64_t used = rows_.control;
  if (shape.is_aggregated()) {
    aggregate_ = PairAggregate(shape, blocks, &used, &rows_);
  } else if (shape.has_pairs()) {
    blocks_ = PairBlocks(shape, blocks, &used, &rows_);
  } else {
    boxes_ = BoxPlan(shape, &used, &rows_);
  }
  const uint64_t fragments = used;
  if (!shape.has_pairs()) {
    eager_.lay_out_bare(shape.eager_fragments, &used);
    rows_.eager_lists = used - fragments;
    return used;
  }
  eager_.lay_out_in_steps(blocks, shape.eager_fragments, &used);
  rows_.eager_lists = used - fragments;
  large_.lay_out_in_one(blocks, shape.max_fragments, &used);
  rows_.max_lists = used - fragments - rows_.eager_lists;
  return used;
}

// False: longer than a file can be. A single part never is, within the ranges of check().
bool Plan::lay_out_parts(uint64_t used) {
  first_part_ = round_up(kSegmentHeaderBytes, shape_.page_size);
  part_bytes_ = round_up(used, shape_.page_size);
  uint64_t parts = 0;
  if (__builtin_mul_overflow(part_bytes_, uint64_t{shape_.procs}, &parts)) return false;
  if (parts > INT64_MAX - first_part_) return false;
  rows_.padding = part_bytes_ - used;
  uint64_t* const rows[] = {&rows_.wrappers,    &rows_.queues,    &rows_.heads,   &rows_.fifos,
                            &rows_.eager_lists, &rows_.max_lists, &rows_.inboxes, &rows_.boxes,
                            &rows_.control,     &rows_.padding};
  for (uint64_t* row : rows) *row *= shape_.procs;
  rows_.control += kSegmentHeaderBytes;
  rows_.padding += first_part_ - kSegmentHeaderBytes;
  rows_.bytes = first_part_ + parts;
  return true;
}

PairPlan Plan::pair(uint32_t from, uint32_t to) const {
  const PairPlan in_parts =
      shape_.is_aggregated() ? aggregate_.pair(from, to) : blocks_.pair(from, to);
  return {at(to, in_parts.fifo), at(to, in_parts.wrapper), at(to, in_parts.queue),
          at(to, in_parts.tail), at(from, in_parts.head)};
}

}  // namespace rdmalloc::shm
