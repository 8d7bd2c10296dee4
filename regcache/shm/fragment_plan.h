// Where in a process's part its fragments of one size lie, eager or large ones, and the head of
// their free list. A fragment is kFragmentHeaderBytes, then the bytes of a message; each begins on
// a line. A value; any thread and context.
#pragma once

#include <stdint.h>

#include "regcache/shm/layout.h"
#include "regcache/shm/shape.h"

namespace rdmalloc::shm {

class FragmentPlan {
 public:
  FragmentPlan() = default;
  // For messages of so many bytes; no fragments yet. The list's head is `list` bytes into a part.
  FragmentPlan(const Shape& shape, uint64_t list, uint64_t bytes);

  // These lay out so many fragments from `*used` bytes into each part, which grows; once. One after
  // the other:
  void lay_out_bare(uint32_t count, uint64_t* used);
  // In one allocation:
  void lay_out_in_one(const Blocks& blocks, uint32_t count, uint64_t* used);
  // In the allocations that a list makes which grows in steps, once it holds at least `least`:
  void lay_out_in_steps(const Blocks& blocks, uint32_t least, uint64_t* used);

  uint32_t count() const { return count_; }
  uint64_t bytes() const { return bytes_; }  // of a message

  // In bytes from the beginning of a part. The list's head has kListHeadBytes, on their own lines.
  uint64_t list() const { return list_; }
  uint64_t fragment(uint32_t index) const;

 private:
  uint64_t list_ = 0;
  uint64_t bytes_ = 0;
  uint64_t stride_ = 0;
  uint32_t count_ = 0;
  uint32_t first_step_ = 0;  // fragments in the first allocation; the next ones have kNextStep
  uint64_t first_ = 0;       // where the first fragment is
  uint64_t next_ = 0;        // where the second allocation begins
  Blocks blocks_{};
};

}  // namespace rdmalloc::shm
