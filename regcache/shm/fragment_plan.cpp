#include "regcache/shm/fragment_plan.h"

namespace rdmalloc::shm {
namespace {

// A free list of eager fragments grows in steps, each its own allocation.
constexpr uint32_t kFirstStep = 8;
constexpr uint32_t kNextStep = 64;

// How many steps follow the first until the list holds at least `least`.
constexpr uint32_t next_steps(uint32_t least) {
  return least <= kFirstStep ? 0 : (least - kFirstStep + kNextStep - 1) / kNextStep;
}
static_assert(kFirstStep + next_steps(2048) * kNextStep == 2056);

}  // namespace

FragmentPlan::FragmentPlan(const Shape& shape, uint64_t list, uint64_t bytes)
    : list_(list), bytes_(bytes), stride_(shape.to_lines(kFragmentHeaderBytes + bytes)) {}

void FragmentPlan::lay_out_bare(uint32_t count, uint64_t* used) {
  count_ = count;
  first_step_ = count;
  first_ = *used;
  *used += count * stride_;
}

void FragmentPlan::lay_out_in_one(const Blocks& blocks, uint32_t count, uint64_t* used) {
  count_ = count;
  first_step_ = count;
  first_ = blocks.payload_of(*used);
  *used += blocks.bytes_for(count * stride_);
}

void FragmentPlan::lay_out_in_steps(const Blocks& blocks, uint32_t least, uint64_t* used) {
  const uint32_t steps = next_steps(least);
  lay_out_in_one(blocks, kFirstStep, used);
  count_ += steps * kNextStep;
  blocks_ = blocks;
  next_ = *used;
  *used += steps * blocks.bytes_for(kNextStep * stride_);
}

uint64_t FragmentPlan::fragment(uint32_t index) const {
  if (index < first_step_) return first_ + index * stride_;
  const uint32_t after = index - first_step_;
  const uint64_t step = next_ + after / kNextStep * blocks_.bytes_for(kNextStep * stride_);
  return blocks_.payload_of(step) + after % kNextStep * stride_;
}

}  // namespace rdmalloc::shm
